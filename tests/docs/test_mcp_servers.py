"""docs/own-tools.md on MCP servers: its files load, its server answers, its figures are those of the code."""

import re
import sys

import pytest

from run_specialist.api.runner import Runner
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.mcp_servers import LONGEST_START, START_TIMEOUT
from run_specialist.tools.mcp_session import LARGEST_MESSAGE, LONGEST_RESULT, MOST_PAGES, MOST_TOOLS
from tests.docs.markdown import blocks, page
from tests.loop_jobs import results
from tests.scripted_provider import ScriptedProvider, calls, says

TEXT = page("own-tools").split("\n## MCP servers\n")[1].split("\n## ")[0]


@pytest.mark.anyio
@pytest.mark.exhaustive
async def test_the_example_server_runs_unchanged(tmp_path, monkeypatch):
    """The example's program and file run unchanged in a project of their own."""
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for folder in (".git", "servers", "specialists"):
        (tmp_path / folder).mkdir()
    (tmp_path / "servers" / "owls.py").write_text(blocks(TEXT, "python servers/owls.py")[0])
    (tmp_path / "specialists" / "owl-counter.md").write_text(blocks(TEXT, "markdown")[0])
    monkeypatch.chdir(tmp_path)
    provider = ScriptedProvider([calls(("mcp__owls__count", {"place": "barn"})), says("3")])
    async with Runner(provider=provider, trust=True) as runner:
        outcome = await runner.run("owl-counter", "How many owls live in the barn?")
    assert results(provider.requests[1].messages[-1]) == ["3 owls were seen in the barn"]
    assert (outcome.status, outcome.warnings) == ("answered", ())


def test_the_documented_files_load_without_warnings(tmp_path):
    """The files in the document load without a warning, also the examples of single front matter lines."""
    for text in blocks(TEXT, "markdown"):
        name = re.search(r"^name: (.*)$", text, re.MULTILINE)[1]
        assert load_text(text, tmp_path / f"{name}.md").status == "ok"
    for line in blocks(TEXT, "yaml")[0].splitlines():
        assert load_text(f"---\nname: a\ndescription: b\n{line}\n---\nFind.", tmp_path / "a.md").status == "ok"


def test_documented_figures_equal_those_of_the_code():
    """Each bound in the document is that of the code."""
    seconds = f"at most {LONGEST_START:g}; default {START_TIMEOUT:g}"
    tools = f"{MOST_TOOLS:,}, on {MOST_PAGES} pages"
    for figure in (seconds, tools, f"{LARGEST_MESSAGE // 1024**2} MiB", f"{LONGEST_RESULT:,} characters"):
        assert figure in TEXT
