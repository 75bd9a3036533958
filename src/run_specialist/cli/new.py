"""The command `specialists new`: ask for the front matter of a new file, and write it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from run_specialist.cli.new_questions import ask_for

if TYPE_CHECKING:
    from run_specialist.specialist.project import SearchFolder

LIMIT = 30
"""Default limit of tool calls in a new file."""


def create(
    folder: "SearchFolder", name: str, flags: Mapping[str, object], project: Path, *, overwrite: bool = False
) -> Path:
    """Write a new specialist file and return its path.

    On a terminal, asks for values without a flag, unless the description is given; elsewhere writes placeholders.
    flags: Values of flags, by key; None = not given.
    project: Project whose folders the specialist reads.
    Raises UsageError for an invalid name, before any question, and for an invalid value or an existing file.
    """
    from run_specialist.specialist.template import check_new, write_new  # noqa: PLC0415 - fast `--help`

    check_new(folder.path, name, overwrite=overwrite)
    given = {key: value for key, value in flags.items() if value is not None}
    if "description" not in given and sys.stdin is not None and sys.stdin.isatty():
        given |= ask_for(name, given, project)
    given.setdefault("tool_calls_limit", LIMIT)
    values = {key: given[key] for key in flags if key in given}
    return write_new(folder.path, name, values, overwrite=overwrite, project=folder.project)


def next_step(name: str, path: Path) -> str:
    """Return what to do with a new file.

    path: As it is shown.
    """
    from run_specialist.specialist.loader import load  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.placeholders import PROBLEM  # noqa: PLC0415 - fast `--help`

    if any(PROBLEM in problem.text for problem in load(path).problems):
        return f"next: replace the lines with TODO in this file; `specialists check {path}` lists them"
    return f"next: edit the prompt (`specialists edit {name}`), then run: run-specialist {name} QUERY"
