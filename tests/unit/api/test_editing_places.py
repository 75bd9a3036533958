"""Places where runs may not change files, because they contain agents, permissions and runs of the user."""

import pytest

from run_specialist.api.runner import Runner
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio
FILE = "---\nname: fixer\ndescription: Fixes.\ntools: write, read\nwritable: .\n---\nYou fix.\n"
CLOSED = [
    "docs/fixer.md",
    "team/other.md",
    "home/data/run-specialist/trusted/a.json",
    "home/config/run-specialist/config.toml",
    "home/config/opencode/agents/x.md",
]


async def test_a_run_cannot_extend_its_own_rights(tmp_path, monkeypatch):
    """Its own file, the folder of `--dir`, and permissions and settings of the user, if the root is above them."""
    for name, folder in {"HOME": "home", "XDG_DATA_HOME": "home/data", "XDG_CONFIG_HOME": "home/config"}.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    for folder in ("docs", "team", "home"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "docs/fixer.md"
    file.write_text(FILE)
    wanted = [("write", {"path": path, "content": "x"}) for path in (*CLOSED, "docs/ok.md")]
    provider = ScriptedProvider([calls(*wanted), says("done")])
    async with Runner(root=tmp_path, dir=tmp_path / "team", provider=provider, trust=True, store="none") as runner:
        outcome = await runner.run(file, "Fix.")
    results = [str(block["content"]) for block in provider.requests[1].messages[-1].content]
    assert ["may not be changed: it belongs to the specialists and settings" in text for text in results[:-1]] == [
        True
    ] * len(CLOSED)
    assert results[-1].startswith("Created docs/ok.md")
    assert (outcome.tool_calls.failed, file.read_text()) == (len(CLOSED), FILE)
