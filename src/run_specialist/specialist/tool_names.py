"""Lists of names in a specialist's file, and what tools they stand for here."""

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

BUILT_IN = ("search", "grep", "glob", "read", "ls", "respond", "get_tool_response", "delegate")

# What Claude Code, Gemini CLI, opencode, Copilot and others call the same thing.
_OURS = {
    name: ours
    for ours, names in {
        "read": """readfile read_file read_many_files readmanyfiles read/readfile notebookread view view_file
            open_file cat""",
        "grep": """grep_search search_file_content searchtext search/textsearch textsearch text_search search/usages
            usages ripgrep rg search_files""",
        "glob": "find findfiles find_files file_search filesearch search/filesearch",
        "ls": """list list_dir listdir list_directory listdirectory list_files readfolder read_folder
            search/listdirectory""",
        "search": "codebase search/codebase codebase_search semantic_search codebasesearch",
        "delegate": "agent task runsubagent",
    }.items()
    for name in names.split()
}
_STARS = frozenset("*?[")
_ARGUMENTS = re.compile(r"\s*\(.*", re.DOTALL)
_ITEM = re.compile(r"^-\s+")


@dataclass(frozen=True, slots=True)
class ResolvedTools:
    """The tools that a specialist gets."""

    names: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Names from the file that stand for no tool that is available."""
    nothing_known: bool = False
    """Tools were named and none of them is available: such a specialist must not run."""


def resolve_tools(tools: Iterable[str] | None, disallowed: Iterable[str], available: Collection[str]) -> ResolvedTools:
    """Map the names of a file onto the tools that are available.

    tools: as written in the file; None = all that is available.
    available: our names, MCP tools as `mcp__server__tool`.
    """
    known = _Known(available)
    taken = {name for pattern in disallowed for name in known.matching(pattern)}
    if tools is None:
        return ResolvedTools(tuple(name for name in available if name not in taken))
    found: dict[str, None] = {}
    unknown = []
    for pattern in tools:
        matching = known.matching(pattern)
        found.update(dict.fromkeys(matching))
        if not matching:
            unknown.append(pattern)
    return ResolvedTools(
        tuple(name for name in found if name not in taken), tuple(unknown), nothing_known=bool(unknown) and not found
    )


class _Known:
    """The tools that are available; a file may name thousands, so only a glob is held against each of them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)
        self._below: dict[str, list[str]] = {}
        """The tools whose names go on with `__` after this; a server's name alone stands for all of its tools."""
        for name in self._names:
            for place in range(len(name)) if name.startswith("mcp__") else ():
                if name.startswith("__", place):
                    self._below.setdefault(name[:place], []).append(name)

    def matching(self, pattern: str) -> list[str]:
        """Return the tools that a name stands for, as a file writes it."""
        name = _ARGUMENTS.sub("", pattern.strip())
        folded = name.lower()
        for whole in (name, _OURS.get(folded, folded)):
            if whole in self._names:
                return [whole]
        globs = [name]
        if name.startswith("mcp__"):
            if _STARS.isdisjoint(name):
                return self._below.get(name, [])
            globs.append(f"{name}__*")
        elif "/" in name:
            server, _, tool = name.partition("/")
            globs = [f"mcp__{server}__{tool}"]
        if _STARS.isdisjoint(globs[0]):
            return [whole for whole in globs if whole in self._names]
        return [tool for tool in self._names if any(fnmatch.fnmatchcase(tool, glob) for glob in globs)]


def split_names(text: str, remark: Callable[[str], None]) -> list[str]:
    """Split a comma-separated list; a comma inside parentheses does not count.

    Lines count as separators, and blanks where there is no comma at all.
    """
    text = _ITEM.sub("", text.strip())
    if text.startswith("[") or (text.endswith("]") and "[" not in text):
        remark("a list that is not closed or not valid; its names are taken")
        text = text.removeprefix("[").removesuffix("]")
    parts = _split(text, ",\n")
    if len(parts) == 1 and len(by_blanks := _split(text, " \t")) > 1:
        remark("names are separated by blanks; commas are expected")
        parts = by_blanks
    return [name for part in parts if (name := _ITEM.sub("", part.strip()).strip("\"' \t"))]


def _split(text: str, separators: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif character in separators and (depth == 0 or character == "\n"):
            parts.append(text[start:index])
            start = index + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def join_parentheses(names: Iterable[str]) -> list[str]:
    """Put together what YAML split at a comma inside parentheses: `[Agent(a, b)]`."""
    joined: list[str] = []
    for name in names:
        if joined and joined[-1].count("(") > joined[-1].count(")") and ")" in name:
            joined[-1] += f", {name}"
        else:
            joined.append(name)
    return joined
