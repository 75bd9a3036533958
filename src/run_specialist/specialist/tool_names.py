"""Resolve lists of tool names."""

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

SEARCH = "web_search"
"""The tool that only an API can run and bills for."""
RESPOND, GET_TOOL_RESPONSE, DELEGATE, MEMORY = "respond", "get_tool_response", "delegate", "memory"
"""The tools that return the answer, read on in a result, ask another specialist, and keep notes."""
RESERVED = ("search", "grep", "glob", "read", "ls", RESPOND, GET_TOOL_RESPONSE, DELEGATE)
"""Built-in tools whose names no function of a project may have."""
BUILT_IN = (*RESERVED, "fetch", "bash", "edit", "write", MEMORY, "todo", "think", SEARCH)
"""All built-in tools; a project's function may replace those that are not reserved."""
SHELL = "bash"
"""The tool whose arguments in a list, such as `Bash(git log:*)`, are rules."""

FETCH = "fetch"
"""The tool that reads web pages."""
OFFERED = frozenset({FETCH, "bash", "edit", "write", SEARCH})
"""Tools that a file gets only if it names them explicitly, not by a pattern such as `*`."""
EDIT, WRITE = "edit", "write"
"""The tools that change files."""
NEEDS_WRITABLE = "requires the key `writable`"

# Names of the same tools in Claude Code, Gemini CLI, opencode, Copilot and others.
_ALIASES = {
    name: built_in
    for built_in, names in {
        "read": """readfile read_file read_many_files readmanyfiles read/readfile notebookread view view_file
            open_file cat""",
        "grep": """grep_search search_file_content searchtext search/textsearch textsearch text_search search/usages
            usages list_code_usages ripgrep rg search_files""",
        "glob": """find findfiles find_files file_search filesearch search/filesearch glob_file_search findtestfiles
            test_search""",
        "ls": """list list_dir listdir list_directory listdirectory list_files readfolder read_folder
            search/listdirectory""",
        "search": "codebase search/codebase codebase_search semantic_search codebasesearch",
        "delegate": "agent task runsubagent agent/runsubagent custom-agent",
        "fetch": """webfetch web_fetch web/fetch fetch_webpage fetchwebpage urlfetch url_fetch fetch_url
            web_get fetch_content""",
        SEARCH: """websearch google_web_search search/web web/search web search_web searchweb internet_search
            web_search_tool""",
        "memory": "vscode/memory save_memory update_memory",
        "todo": """todos todowrite todoread todo_write todo_read write_todos update_todos manage_todo_list
            managetodolist update_plan taskcreate taskupdate tasklist taskget""",
        SHELL: """shell run_shell_command shelltool execute execute/runinterminal runinterminal run_in_terminal
            runcommands runcommand run_commands run_command execute_command executecommand exec_command shell_command
            local_shell terminal terminalcommand run_terminal_command run_terminal_cmd""",
        EDIT: """multiedit multi_edit replace str_replace strreplace str_replace_editor str_replace_based_edit_tool
            edit_file editfile editfiles edit_files edit/editfiles search_replace replace_in_file
            replace_string_in_file multi_replace_string_in_file insert_edit_into_file replacestringinfile""",
        WRITE: """write_file writefile write_to_file create create_file createfile edit/createfile new_file
            save_file""",
    }.items()
    for name in names.split()
}
_STARS = frozenset("*?[")
_ARGUMENTS = re.compile(r"\s*\(.*", re.DOTALL)
_ITEM = re.compile(r"^-\s+")


@dataclass(frozen=True, slots=True)
class ResolvedTools:
    """Tools available to a specialist."""

    names: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Names from the file that match no available tool."""
    nothing_known: bool = False
    """Whether tools are named but none is available; such a specialist must not run."""


def resolve_tools(tools: Iterable[str] | None, disallowed: Iterable[str], available: Collection[str]) -> ResolvedTools:
    """Map the tool names of a file to the available tools.

    tools: Names as written in the file; None = all available tools.
    available: Tool names; MCP tools as `mcp__server__tool`.
    """
    known = dict.fromkeys(available)
    removed = {name for pattern in disallowed for name in _matching(pattern, known) if _removes(pattern, name)}
    if tools is None:
        return ResolvedTools(tuple(name for name in available if name not in removed))
    found: dict[str, None] = {}
    unknown = []
    for pattern in tools:
        matching = _matching(pattern, known)
        found.update(dict.fromkeys(matching))
        if not matching:
            unknown.append(pattern)
    left = tuple(name for name in found if name not in removed)
    return ResolvedTools(left, tuple(unknown), nothing_known=bool(unknown) and not found)


def names_tool(tools: Iterable[str] | None, name: str) -> bool:
    """Return whether a list names a tool explicitly; a pattern such as `*` does not.

    tools: as for `resolve_tools`.
    """
    exact = (one for one in tools or () if _STARS.isdisjoint(_ARGUMENTS.sub("", one)))
    return bool(resolve_tools(exact, (), [name]).names)


def removes_tool(disallowed: Iterable[str], name: str) -> bool:
    """Return whether a list of disallowed tools removes a tool; a rule for some of its commands does not.

    disallowed: as for `resolve_tools`.
    """
    return any(_removes(pattern, name) for pattern in disallowed if _matching(pattern, [name]))


def shell_rules(tools: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return each entry of a list for the shell, as its name in lower case and its rule; None = without a rule."""
    found = []
    for entry in tools:
        name, opened, rule = entry.strip().partition("(")
        if _matching(name, [SHELL]):
            found.append((name.strip().lower(), rule.strip().removesuffix(")") if opened else None))
    return found


def _removes(pattern: str, name: str) -> bool:
    """Return whether a disallowed entry that matches a tool removes it."""
    return name != SHELL or "(" not in pattern


def _matching(pattern: str, known: Collection[str]) -> list[str]:
    """Return the known tools that match a name or glob as written in a file."""
    name = _ARGUMENTS.sub("", pattern.strip())
    folded = name.lower()
    served = f"mcp__{name.replace('/', '__', 1)}" if "/" in name else name
    for exact in (served, name, _ALIASES.get(folded, folded)):
        if exact in known:
            return [exact]
    if _STARS.isdisjoint(served):
        # The name of a server stands for all its tools.
        prefix = f"{served}__"
        return [tool for tool in known if tool.startswith(prefix)] if name.startswith("mcp__") else []
    globs = [served, f"{served}__*"] if name.startswith("mcp__") else [served]
    return [tool for tool in known if any(fnmatch.fnmatchcase(tool, glob) for glob in globs)]


def split_names(text: str, warn: Callable[[str], None]) -> list[str]:
    """Split a list separated by commas or newlines, or by blanks if it has neither.

    Commas inside parentheses do not separate.
    """
    text = _ITEM.sub("", text.strip())
    if text.startswith("[") or (text.endswith("]") and "[" not in text):
        warn("the list is invalid or not closed; using its names")
        text = text.removeprefix("[").removesuffix("]")
    parts = _split(text, ",")
    if len(parts) == 1 and len(by_blanks := _split(text, " \t")) > 1:
        warn("names are separated by blanks; commas are expected")
        parts = by_blanks
    return [name for part in parts if (name := _ITEM.sub("", part.strip()).strip("\"' \t"))]


def _split(text: str, separators: str) -> list[str]:
    # A newline separates inside parentheses, too.
    parts = re.split(rf"\n|[{separators}](?![^()\n]{{0,2000}}\))", text)
    return [part for part in parts if part.strip()]


def join_parentheses(names: Iterable[str]) -> list[str]:
    """Rejoin names that YAML split at a comma inside parentheses, as in `[Agent(a, b)]`."""
    joined: list[str] = []
    for name in names:
        if joined and joined[-1].count("(") > joined[-1].count(")") and ")" in name:
            joined[-1] += f", {name}"
        else:
            joined.append(name)
    return joined
