"""Names of tools that only an editor has are reported as a group."""

from pathlib import Path

import pytest

from run_specialist.specialist.loader import load_text
from run_specialist.specialist.tool_names import BUILT_IN, is_editor_tool, resolve_tools


def warnings(tools: str) -> list[str]:
    """Return the warnings about the tools of a file."""
    file = load_text(f"---\nname: a\ndescription: d\ntools: {tools}\n---\nBody\n", Path("a.md"))
    return [one.text for one in file.problems if one.key == "tools"]


@pytest.mark.parametrize(
    "name",
    [
        *("problems", "read/problems", "terminalSelection", "vscode/vscodeAPI", "vscode/anythingNew", "new", "changes"),
        *("ms-python.python/getPythonEnvironmentInfo", "github.vscode-pull-request-github/issue_fetch"),
        *("execute/getTerminalOutput", "web/githubRepo", "search/changes", " testFailure "),
    ],
)
def test_tools_of_an_editor(name: str) -> None:
    """With the name of their set and without, in any case, and those of extensions."""
    assert is_editor_tool(name)
    assert not resolve_tools([name], (), BUILT_IN).names


@pytest.mark.parametrize(
    "name", ["github/create_issue", "mcp__web__fetch", "playwright", "azure-mcp/*", "Foo", "", "/"]
)
def test_other_names_are_no_tools_of_an_editor(name: str) -> None:
    """Servers, their tools, and unknown names."""
    assert not is_editor_tool(name)


def test_no_name_of_a_tool_that_is_here_counts_as_one_of_an_editor() -> None:
    """Otherwise an existing tool would be reported as missing."""
    assert not [name for name in BUILT_IN if is_editor_tool(name)]


def test_they_are_one_line_and_other_unknown_names_another() -> None:
    """The last line says so if no tool is left."""
    assert warnings("read, problems, Foo, vscodeAPI") == [
        "2 tools of an editor are not here: problems, vscodeAPI",
        "not available here: Foo",
    ]
    assert warnings("read, problems") == ["1 tool of an editor is not here: problems"]
    left = "; no tool is left, so the specialist cannot be run"
    assert warnings("problems") == [f"1 tool of an editor is not here: problems{left}"]
    assert warnings("problems, Foo")[-1] == f"not available here: Foo{left}"
    assert warnings("memory, read, vscode/memory") == []
