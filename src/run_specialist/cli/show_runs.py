"""Format stored runs: as JSON, as transcripts, with sizes and times."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from run_specialist.cli.console import has_colours, print_line, print_styled, printable

if TYPE_CHECKING:
    from run_specialist.store.conversation import Row
    from run_specialist.store.stored import ListedRun

NO_LINES: Mapping[int, str] = MappingProxyType({})


def as_json(run: "ListedRun") -> dict[str, Any]:
    """Return a run as an item of `runs --json`; times in UTC."""
    ended_at = None if run.ended_at is None else iso(run.ended_at)
    return {**asdict(run), "started_at": iso(run.started_at), "ended_at": ended_at}


END_OF_COPY = "the copied turns end here"
"""Line in the transcript of a fork before its own messages."""


def forked_line(run: "ListedRun") -> str:
    """Return the line that names the run that a fork begins with."""
    turns = run.forked_at or 0
    return f"forked from {run.forked_from} after {f'{turns} turn' if turns == 1 else f'{turns} turns'}"


def print_rows(rows: Sequence["Row"], lines: Mapping[int, str] = NO_LINES) -> None:
    """Print a transcript: each call on one line, all other messages indented below a label.

    lines: further lines, by the index of the row that they precede.
    """
    numbers: dict[object, int] = {}
    calls, before = 0, None
    for index, row in enumerate(rows):
        kind = row["kind"]
        if index in lines:
            before = None
            print_line("")
            print_labelled(lines[index])
        if (before, kind) != ("tool_call", "tool_call"):
            print_line("")
        before = kind
        if kind == "tool_call":
            calls += 1
            numbers[row["id"]] = calls
            print_labelled(f"call {calls}", f"  {row['name']} {json.dumps(row['arguments'], ensure_ascii=False)}")
        elif kind == "tool_result":
            number = f" {numbers[row['id']]}" if row["id"] in numbers else ""
            print_labelled(f"result{number}{', an error' if row['is_error'] else ''}")
            _print_indented(row["content"])
        else:
            print_labelled(kind)
            _print_indented(row["text"])


def print_labelled(label: str, text: str = "") -> None:
    """Print a label, dimmed on a terminal, followed by a text."""
    if has_colours():
        print_styled(typer.style(printable(label), dim=True) + printable(text))
    else:
        print_line(label + text)


def _print_indented(text: str) -> None:
    print_line("\n".join(f"  {line}".rstrip() for line in text.split("\n")))


def counted(runs: int) -> str:
    """Return e.g. `1 run` or `2 runs`."""
    return f"{runs:,} run{'' if runs == 1 else 's'}"


def size(number: float) -> str:
    """Return a size with its unit, e.g. `1.2 MB`.

    number: the size [bytes].
    """
    for unit in ("bytes", "kB", "MB"):
        if number < 1_000:  # noqa: PLR2004 - the next unit
            return f"{number:.3g} {unit}"
        number /= 1_000
    return f"{number:,.1f} GB"


def local(at: float) -> str:
    """Return a time in the local time zone.

    at: [seconds since 1970].
    """
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"


def iso(at: float) -> str:
    """Return a time in UTC as ISO 8601, with milliseconds.

    at: [seconds since 1970].
    """
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
