"""How names in `tools` map to the available tools."""

import pytest

from run_specialist.specialist.tool_names import BUILT_IN, ResolvedTools, resolve_tools

AVAILABLE = (*BUILT_IN, "mcp__web__fetch", "mcp__web__search", "mcp__db__query")


NAMES = {
    "read": ("Read", "Read(src/**)", "read_file", "read_many_files", "read/readFile"),
    "grep": ("Grep", "search_file_content", "SearchText"),
    "glob": ("Glob", "FindFiles", "findTestFiles"),
    "ls": ("LS", "list_directory", "list"),
    "search": ("codebase", "search/codebase"),
    "mcp__db__query": ("mcp__db__query",),
    "delegate": ("Task",),
    "todo": ("TodoWrite", "manage_todo_list", "update_plan"),
    "memory": ("vscode/memory",),
    "think": ("think",),
    "fetch": ("web_get",),
}


@pytest.mark.parametrize(("written", "ours"), [(name, ours) for ours, names in NAMES.items() for name in names])
def test_names_of_other_programs_map_to_the_built_in_tools(written: str, ours: str) -> None:
    """Tool names of Claude Code, Gemini CLI, opencode and Copilot map to the built-in ones."""
    assert resolve_tools([written], (), AVAILABLE) == ResolvedTools((ours,))


def test_globs_select_the_tools_of_a_server() -> None:
    """A glob, the server's name alone and `server/*` each select all tools of a server."""
    both = ("mcp__web__fetch", "mcp__web__search")
    for written in ("mcp__web__*", "mcp__web", "web/*"):
        assert resolve_tools([written], (), AVAILABLE).names == both
    assert resolve_tools(["web/fetch"], (), AVAILABLE).names == both[:1]


def test_a_server_prefix_matches_only_complete_names() -> None:
    """`mcp__a` matches names that continue with `__`, and no other names with that prefix."""
    available = ("mcp__a__x", "mcp__a__b__y", "mcp__ab__z", "mcp__a_", "mcp__a___w")
    assert resolve_tools(["mcp__a"], (), available).names == ("mcp__a__x", "mcp__a__b__y", "mcp__a___w")
    assert resolve_tools(["mcp__a__b"], (), available).names == ("mcp__a__b__y",)
    assert resolve_tools(["mcp__a_"], (), available).names == ("mcp__a_",)
    assert resolve_tools(["mcp", "mcp_", "mcp__c"], (), available).nothing_known


def test_a_star_or_no_list_selects_all_tools() -> None:
    """`*` or no list selects all tools; an empty list selects none and is valid."""
    assert resolve_tools(["*"], (), AVAILABLE).names == AVAILABLE
    assert resolve_tools(None, (), AVAILABLE).names == AVAILABLE
    assert resolve_tools([], (), AVAILABLE) == ResolvedTools(())


def test_a_disallowed_tool_is_removed_under_any_name() -> None:
    """A disallowed tool is removed, whichever of its names is used."""
    assert resolve_tools(["Read", "Grep"], ["read_file"], AVAILABLE).names == ("grep",)
    assert resolve_tools(None, ["mcp__web__*", "Task", "nothing"], AVAILABLE).names == (
        *(name for name in BUILT_IN if name != "delegate"),
        "mcp__db__query",
    )


def test_unknown_names_are_reported() -> None:
    """Unknown names are reported; a list of only unknown names must not run."""
    assert resolve_tools(["Read", "Painter"], (), AVAILABLE) == ResolvedTools(("read",), ("Painter",))
    assert resolve_tools(["Painter(ls)", "Telescope"], (), AVAILABLE) == ResolvedTools(
        (), ("Painter(ls)", "Telescope"), nothing_known=True
    )
    assert not resolve_tools(["Read", "Painter"], ["Read"], AVAILABLE).nothing_known
