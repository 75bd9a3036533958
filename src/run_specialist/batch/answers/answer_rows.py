"""Rows of answers as lines of JSON."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run_specialist.batch.done import Done

Row = Mapping[str, Any]
"""The object of `Done.as_row`."""
_NOT_PLAIN = re.compile(r"[^ -~]")


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row and its position in a file."""

    row: Row
    start: int
    """Position of its first byte."""
    end: int
    """Position after its line end."""


def row_line(done: Done) -> bytes:
    """Return the row of an item as one line of JSON in UTF-8, with its line end.

    Characters that could control a terminal, and halves of surrogate pairs, are escaped; the JSON value is the same.
    """
    text = json.dumps(done.as_row(), ensure_ascii=False)
    if not text.isprintable():
        text = _NOT_PLAIN.sub(_escaped, text)
    return f"{text}\n".encode()


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def is_row(value: object) -> bool:
    """Return whether a value is a row of answers."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("number"), int)
        and {"input", "outcome", "state", "run_id"} <= value.keys()
        and isinstance(value["outcome"], dict | None)
    )


def parse_row(line: bytes) -> Row | None:
    """Return the row on a line; None if the line is no row, e.g. because writing it was interrupted."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if is_row(value) else None


def stored_rows(lines: Iterable[bytes]) -> Iterator[tuple[int, StoredRow | None]]:
    """Yield number and row of each non-empty line; the row is None if the line is not a row."""
    end = 0
    for number, line in enumerate(lines, 1):
        start, end = end, end + len(line)
        if line.strip():
            row = parse_row(line)
            yield number, None if row is None else StoredRow(row, start, end)


def rows_in(path: Path) -> Iterator[Row]:
    """Yield the rows of a file of JSON lines, which may still be written; raises OSError."""
    with path.open("rb") as file:
        for _, stored in stored_rows(file):
            if stored:
                yield stored.row
