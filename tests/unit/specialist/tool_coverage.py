"""How many public agent files get the tools that they name; prints the table of the documentation.

python -m tests.unit.specialist.tool_coverage
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from run_specialist.specialist.loader import load
from run_specialist.specialist.tool_names import BUILT_IN, RESERVED, resolve_tools
from tests.unit.specialist.corpus import AGENTS, MANIFEST

OTHERS = "tools of editors, MCP servers and extensions that only their authors have"


def _is(*tools: str) -> Callable[[str], bool]:
    return lambda name: bool(resolve_tools([name], (), [one for one in tools if one in BUILT_IN]).names)


GROUPS: Sequence[tuple[str, Callable[[str], bool]]] = (
    ("a shell", _is("bash")),
    ("tools that change files", _is("edit", "write")),
    ("the web", _is("fetch", "web_search")),
    ("a list of tasks, notes or thoughts", _is("todo", "think", "memory")),
)
"""Groups of tools, each with whether a name belongs to it; all other names belong to `OTHERS`."""


def table() -> list[str]:
    """Return the lines of the table: how many files lack which tools, without the newer ones and with them."""
    named = [list(_names(AGENTS / entry["file"])) for entry in json.loads(MANIFEST.read_text("utf-8"))["files"]]
    files = [names for names in named if names]
    before, now = ([_lacking(names, available) for names in files] for available in (RESERVED, BUILT_IN))
    rows = [("files that get every tool that they name", *(sum(not one for one in each) for each in (before, now)))]
    rows.append(
        (f"... every one but {OTHERS}", *(sum(_groups(one) == {OTHERS} for one in each) for each in (before, now)))
    )
    rows += [
        (f"files that lack {group}", *(sum(group in _groups(one) for one in each) for each in (before, now)))
        for group in (*(name for name, _ in GROUPS), OTHERS)
    ]
    head = [f"| of {len(files)} public agent files that name tools | with file tools only | now |", "|---|---|---|"]
    return [*head, *(f"| {text} | {old} | {new} |" for text, old, new in rows)]


def _names(path: Path) -> Iterator[str]:
    """Yield the tools that a file names; `*` names none."""
    file = load(path)
    # Without its `agents`, a name such as Task stands for no tool.
    can_delegate = bool(file.specialist and file.specialist.agents)
    for name in file.tools or ():
        if can_delegate or not resolve_tools([name], (), ["delegate"]).names:
            yield name


def _lacking(names: Sequence[str], available: Collection[str]) -> tuple[str, ...]:
    return resolve_tools(names, (), available).unknown


def _groups(names: Sequence[str]) -> set[str]:
    """Return the groups to which names belong."""
    return {next((group for group, belongs in GROUPS if belongs(name)), OTHERS) for name in names}


if __name__ == "__main__":
    print("\n".join(table()))  # noqa: T201 - a script
