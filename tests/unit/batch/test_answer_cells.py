"""Rows of answers as lines of JSON and cells of CSV."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.answer_file import (
    cells_of,
    guarded_cell,
    input_cells,
    parse_row,
    row_line,
    unguarded_cell,
)
from run_specialist.batch.item import Done, Item
from run_specialist.record.outcome import Evidence
from tests.unit.batch.item_sources import INPUTS, done


@given(st.text(), INPUTS)
def test_a_row_reads_back(answer, given_input):
    """Any answer, also one with control characters and halves of surrogate pairs, is one line of UTF-8."""
    one = done(3, given_input, answer=answer)
    line = row_line(one)
    assert line.count(b"\n") == 1
    assert line.decode().rstrip("\n").isprintable()
    assert parse_row(line) == json.loads(json.dumps(one.as_row()))


@pytest.mark.parametrize("line", [b"7", b"{}", b'{"number": 1}', b"\xff", b"[" * 100_000, b"null"])
def test_other_lines_are_no_rows(line):
    """Not even other JSON."""
    assert parse_row(line) is None


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        *((text, f"'{text}") for text in ("@SUM(A1)", "-x", "-5+1")),
        *((text, text) for text in ("+1.5e-7", "-1,5", "plain = text")),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("\t=1", "'\t=1"),
        ("＝1+1", "'＝1+1"),
        ("-5", "-5"),
        ("'tis", "'tis"),
        ("'=x", "''=x"),
        ("0''", "0''"),
        ("", ""),
    ],
)
def test_formulas_are_guarded(text, cell):
    """They are prefixed with an apostrophe; numbers and other texts stay unchanged."""
    assert guarded_cell(text) == cell
    assert unguarded_cell(cell) == text


def test_every_field_has_a_column_of_its_own():
    """A field with the name of another column gets a prefix, also if a field with that prefix exists."""
    cells = input_cells({"state": "x", "answer": "y", "input.state": "z", "number": 1})
    assert cells == {"input.input.state": "x", "input.answer": "y", "input.state": "z", "input.number": "1"}


@given(st.text(max_size=6) | st.text("'=+-@\t\r\n＝＋－＠1.,e", max_size=6))
def test_guarded_cells_read_back(text):
    """Every text survives, and no cell begins like a formula unless it is a number."""
    assert unguarded_cell(guarded_cell(text)) == text
    assert guarded_cell(text)[:1] not in {"=", "@", "\t", "\r", "\n"}


def test_the_cells_of_an_outcome():
    """Counts instead of lists, and empty cells for unknown values."""
    quotes = (Evidence("a:1", "q", verified=True), Evidence("a:2", "r", verified=False), Evidence("a:3", "s", None))
    one = done(7, {"path": "a.md", "n": [1]}, evidence=quotes, gaps=("x", "y"), cost_usd=0.01, duration_s=1.26)
    assert cells_of(one.as_row()) == {
        "number": "7",
        "path": "a.md",
        "n": "[1]",
        "state": "landed",
        "answer": "So.",
        "evidence": "3",
        "verified": "1",
        "gaps": "x; y",
        "calls": "3",
        "cost_usd": "0.01",
        "seconds": "1.3",
        "run_id": "b1-7",
        "error": "",
    }
    failed = Done(Item(2, "text", "Why?", "k"), "", error="no such file", without_run="failed")
    cells = cells_of(failed.as_row())
    assert (cells["item"], cells["state"], cells["error"]) == ("text", "failed", "no such file")
    assert [cells[column] for column in ("answer", "evidence", "verified", "calls", "cost_usd", "run_id")] == [""] * 6
