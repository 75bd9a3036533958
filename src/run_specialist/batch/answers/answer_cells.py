"""Rows of answers as cells of CSV: flat, and safe to open in a spreadsheet."""

import re
from collections.abc import Iterable, Mapping, Sequence

from run_specialist.batch.answers.answer_rows import Row
from run_specialist.batch.items.input_values import as_text, fields_of

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
