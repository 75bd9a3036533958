"""Index the rows of answer files by position, so that files can be merged and sorted without loading them."""

import csv
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.batch.answers.answer_cells import FIRST, LAST, Cells, cells_of, input_cells, unguarded_cell
from run_specialist.batch.answers.answer_rows import stored_rows
from run_specialist.batch.items.decoded_lines import LONGEST_LINE
from run_specialist.errors import UsageError


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
        for number, stored in stored_rows(file):
            if stored is not None:
                row = stored.row
                # Only what CSV and JSON have in common identifies a row.
                cells = input_cells(row["input"]) | {FIRST: str(row["number"]), "run_id": str(row["run_id"])}
                index.add(cells, stored.start, stored.end, row["number"])
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
                header = _checked_header(cells)
                index.columns.update(dict.fromkeys(header))
            elif cells:
                row = dict(zip(header, map(unguarded_cell, cells), strict=True))
                index.add(row, start, end, int(row[FIRST]))
    except (csv.Error, ValueError):
        raise _foreign(f"{path}: row {len(index.places) + bool(header) + 1}") from None
    return index


def _checked_header(cells: list[str]) -> list[str]:
    if cells[:1] != [FIRST] or cells[-len(LAST) :] != [*LAST]:
        raise ValueError
    return cells


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
