"""Convert answers to rows of JSON or CSV, and to the index of a folder."""

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.batch.item import Done
from run_specialist.batch.questions import as_text, fields_of
from run_specialist.batch.read_items import LONGEST_LINE
from run_specialist.errors import UsageError

Row = Mapping[str, Any]
"""The object of `Done.as_row`."""
_NOT_PLAIN = re.compile(r"[^ -~]")


def row_line(done: Done) -> bytes:
    """Return the row of an item as one line of JSON in UTF-8, with its line end.

    Characters that could control a terminal, and halves of surrogate pairs, are escaped; the JSON value is the same.
    """
    text = json.dumps(done.as_row(), ensure_ascii=False)
    if not text.isprintable():
        text = _NOT_PLAIN.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)
    return f"{text}\n".encode()


def parse_row(line: bytes) -> Row | None:
    """Return the row on a line; None if the line is no row, e.g. because writing it was interrupted."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_row = (
        isinstance(value, dict)
        and isinstance(value.get("number"), int)
        and {"input", "outcome", "state", "run_id"} <= value.keys()
        and isinstance(value["outcome"], dict | None)
    )
    return value if is_row else None


def stored_rows(lines: Iterable[bytes]) -> Iterator[tuple[int, int, int, Row | None]]:
    """Yield number, start, end and row of each non-empty line; the row is None if the line is not a row.

    Start and end: positions of the first byte and after the line end.
    """
    end = 0
    for number, line in enumerate(lines, 1):
        start, end = end, end + len(line)
        if line.strip():
            yield number, start, end, parse_row(line)


def rows_in(path: Path) -> Iterator[Row]:
    """Yield the rows of a file of JSON lines, which may still be written; raises OSError."""
    with path.open("rb") as file:
        for *_, row in stored_rows(file):
            if row is not None:
                yield row


Cells = dict[str, str]
"""Texts by column."""
FIRST = "number"
LAST = (
    "state",
    "answer",
    "evidence",
    "verified",
    "gaps",
    "calls",
    "cost_usd",
    "seconds",
    "run_id",
    "error",
)
"""The columns that follow those of the input."""
# A spreadsheet takes such a text for a formula, which may call other programs.
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?(?:[eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r"'(?=[=+\-@\t\r\n＝＋－＠'])")


def input_cells(given: object) -> Cells:
    """Return the cells of an input, one for each field; a text is the field `item`.

    A field with the name of another column gets the prefix `input.`.
    """
    cells: Cells = {}
    fields = fields_of(given) if isinstance(given, str | Mapping) else {"item": given}
    taken = {FIRST, *LAST, *fields}
    for name, value in fields.items():
        column = name
        if name in (FIRST, *LAST):
            while column in taken:
                column = f"input.{column}"
            taken.add(column)
        cells[column] = as_text(value)
    return cells


def cells_of(row: Row) -> Cells:
    """Return the cells of a row; unknown values are empty."""
    outcome = row["outcome"] or {}
    evidence: Sequence[Mapping[str, object]] = outcome.get("evidence") or ()
    calls = (outcome.get("tool_calls") or {}).get("used")
    seconds = outcome.get("duration_s")
    values = {
        "state": row["state"],
        "answer": outcome.get("answer"),
        "evidence": len(evidence) if outcome else None,
        "verified": sum(one.get("verified") is True for one in evidence) if outcome else None,
        "gaps": "; ".join(outcome.get("gaps") or ()),
        "calls": calls,
        "cost_usd": outcome.get("cost_usd"),
        "seconds": None if seconds is None else round(seconds, 1),
        "run_id": row["run_id"],
        "error": row.get("error"),
    }
    texts = {column: "" if value is None else str(value) for column, value in values.items()}
    return {FIRST: str(row["number"])} | input_cells(row["input"]) | texts


def columns_of(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the columns of a table whose rows may have different columns for their inputs."""
    found = dict.fromkeys(column for row in rows for column in row)
    return [FIRST, *(column for column in found if column not in (FIRST, *LAST)), *LAST]


def guarded_cell(text: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: formulas, but not numbers, get an apostrophe as prefix.

    A text that already begins with such an apostrophe gets another one, so that `unguarded_cell` restores every text.
    """
    if _QUOTED.match(text) or (_FORMULA.match(text) and not _NUMBER.fullmatch(text)):
        return f"'{text}"
    return text


def unguarded_cell(cell: str) -> str:
    """Return the text of a cell that `guarded_cell` has made."""
    return _QUOTED.sub("", cell, count=1) if cell.startswith("'") else cell


@dataclass(frozen=True, slots=True)
class RowPosition:
    """A row: its identity, and its bytes in a file."""

    number: int
    run_id: str
    input_id: bytes
    """Digest of its input, the same in both formats."""
    start: int
    end: int


@dataclass(slots=True)
class AnswerIndex:
    """The rows of a file."""

    path: Path
    is_csv: bool
    places: list[RowPosition] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)
    """Columns of all rows, for CSV; those of a CSV file in their order."""

    def add(self, cells: Cells, start: int, end: int, number: int) -> None:
        """Add a row by its cells."""
        given = {column: cell for column, cell in cells.items() if column not in (FIRST, *LAST) and cell}
        digest = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).digest()[:16]
        self.places.append(RowPosition(number, cells["run_id"], digest, start, end))
        self.columns.update(dict.fromkeys(cells))

    def without(self, newer: "AnswerIndex") -> list[RowPosition]:
        """Return the rows that another file does not replace (by the same run, or the same input at the same place).

        newer: the rows that replace them.
        """
        runs = {place.run_id for place in newer.places if place.run_id}
        inputs = {(place.number, place.input_id) for place in newer.places}
        return [one for one in self.places if one.run_id not in runs and (one.number, one.input_id) not in inputs]


def index_of_json(path: Path, *, may_be_torn: bool) -> AnswerIndex:
    """Return the rows of a file of JSON lines.

    may_be_torn: ignore an incomplete line, because writing it was interrupted; otherwise it raises UsageError.
    """
    index = AnswerIndex(path, is_csv=False)
    with path.open("rb") as file:
        for number, start, end, row in stored_rows(file):
            if row is not None:
                # Only what CSV and JSON have in common identifies a row.
                cells = input_cells(row["input"]) | {FIRST: str(row["number"]), "run_id": str(row["run_id"])}
                index.add(cells, start, end, row["number"])
            elif not may_be_torn:
                raise _foreign(f"{path}:{number}")
    return index


def index_of_csv(path: Path) -> AnswerIndex:
    """Return the rows of a CSV file of answers; raises UsageError if it is another file."""
    index = AnswerIndex(path, is_csv=True)
    header: list[str] = []
    try:
        for cells, start, end in _records(path):
            if not header:
                if cells[:1] != [FIRST] or cells[-len(LAST) :] != [*LAST]:
                    raise ValueError  # noqa: TRY301 - reported below
                header = cells
                index.columns.update(dict.fromkeys(header))
            elif cells:
                row = dict(zip(header, map(unguarded_cell, cells), strict=True))
                index.add(row, start, end, int(row[FIRST]))
    except (csv.Error, ValueError):
        raise _foreign(f"{path}: row {len(index.places) + bool(header) + 1}") from None
    return index


def _records(path: Path) -> Iterator[tuple[list[str], int, int]]:
    """Yield the cells of each record, and where it begins and ends; a record may have several lines."""
    csv.field_size_limit(max(csv.field_size_limit(), 10 * LONGEST_LINE))
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for line in file:
            read += len(line)
            yield line.decode()

    with path.open("rb") as file:
        start = 0
        for cells in csv.reader(lines(), strict=True):
            yield cells, start, read
            start = read


def _foreign(where: str) -> UsageError:
    return UsageError(f"{where} is not a row of answers; the file is not overwritten, choose another one or delete it")


def cells_at(data: bytes, index: AnswerIndex) -> Cells:
    """Return the cells of a row of an index.

    data: its bytes.
    """
    if not index.is_csv:
        return cells_of(json.loads(data))
    cells = next(csv.reader([data.decode()]))
    return dict(zip(index.columns, map(unguarded_cell, cells), strict=True))
