"""What a worker checks on its own host before it takes the items of a batch."""

import pytest

from run_specialist.errors import UsageError
from run_specialist.fleet.batch_here import BatchHere
from run_specialist.fleet.frozen_batch import freeze
from run_specialist.fleet.roots import Root
from run_specialist.specialist.loader import load

pytestmark = pytest.mark.anyio
HEAD = "name: finder\ndescription: Finds.\nmodel: claude-haiku-4-5\n"
SKILL = "---\nname: owls\ndescription: About owls.\n---\nOwls eat mice.\n"
NEEDS = {
    "output_schema: shape.json": ("specialists/shape.json", '{"type": "object"}', "output_schema: no such file"),
    "skills: [owls]": (".agents/skills/owls/SKILL.md", SKILL, "no skill named owls"),
    "paths: ['vault/**']": ("vault/owls.md", "Owls.\n", "no file under"),
    "python_tools: ['birds:owls']": ("birds.py", "def owls() -> str: ...\n", "no module birds"),
}
"""What a file may name, what that needs on the host, and the reason without it."""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a function that makes the project of a host, which has the specialist and other files."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")

    def make(host, key, *others):
        root = tmp_path / host / "notes"
        for name, text in (("specialists/finder.md", f"---\n{HEAD}{key}\n---\nFind.\n"), *others):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return make


async def checked(frozen, root, *, trust=False):
    """Check a batch on the host with this root."""
    here = BatchHere.found(
        "b1", frozen.as_json(), {"notes": Root(root)}, "postgresql://nobody@127.0.0.1:1/x", trust=trust
    )
    try:
        await here.check()
    finally:
        await here.aclose()


@pytest.mark.parametrize("key", NEEDS)
async def test_a_host_that_lacks_what_the_specialist_names_is_found_out(project, key):
    """The host with the file passes; one that lacks it, or the permission, is refused with the reason."""
    name, text, reason = NEEDS[key]
    root = project("one", key, (name, text))
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    await checked(frozen, root, trust=True)
    with pytest.raises(UsageError, match=reason):
        await checked(frozen, project("two", key))


async def test_a_host_that_does_not_trust_the_batch_is_found_out(project):
    """A function needs a permission on each host, which `--trust` gives."""
    key = "python_tools: ['birds:owls']"
    root = project("one", key, NEEDS[key][:2])
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    with pytest.raises(UsageError, match="must be allowed once with --trust"):
        await checked(frozen, root)
    await checked(frozen, root, trust=True)


async def test_a_host_without_credentials_is_found_out(project, monkeypatch):
    """It is refused before an item fails."""
    root = project("one", "tools: [grep]")
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    await checked(frozen, root)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="no credentials for claude-haiku-4-5"):
        await checked(frozen, root)
