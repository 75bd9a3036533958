"""Items as CSV."""

import csv
import io

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from run_specialist.batch.item import InputRecord
from run_specialist.batch.read_items import csv_items, decoded_lines
from run_specialist.errors import UsageError
from tests.unit.batch.item_sources import TEXTS, inputs_in, items_in

AB = [{"a": "1", "b": "2"}]


def read(text: str, delimiter: str | None = None) -> list[InputRecord]:
    """Read the items of a text."""
    return [*csv_items(decoded_lines(io.BytesIO(text.encode()), "f.csv"), "f.csv", delimiter)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", AB),
        ("a;b\n1;2\n", AB),
        ("\ufeffa,b\n1,2", AB),
        ("sep=;\na;b\n1;2\n", AB),
        ("a,b\n\n1,2\n\n,\n \n", AB),
        ("a,b\nx; y,z; w\n", [{"a": "x; y", "b": "z; w"}]),
        ('a,b\n"x\r\ny","say ""no"""\n', [{"a": "x\r\ny", "b": 'say "no"'}]),
        ('question\n"Why, then?"\n', [{"question": "Why, then?"}]),
        (",a\n0,x\n", [{"column 1": "0", "a": "x"}]),
        ("", []),
    ],
)
def test_tables(text, expected):
    """The delimiter is found, quotes are resolved, and empty rows are skipped."""
    assert [one.input for one in read(text)] == expected


def test_a_row_has_the_line_on_which_it_begins():
    """Line breaks inside quotes do not shift the places of later rows."""
    found = read('a,b\n"1\n\n1",2\n\n3,4\n')
    assert [one.where for one in found] == ["f.csv:2", "f.csv:6"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "a,b\n1,2\n1,2,3\n",
            "f.csv:3 has 3 values, but the header has 2 (a, b); add the missing ones, or quote values that contain ','",
        ),
        ("a\tb\n1\n", "f.csv:2 has 1 value, but the header has 2 (a, b); add the missing ones, or quote"),
        ("a,b, a \n1,2,3\n", "f.csv:1: the header has the column 'a' more than once"),
        ('a,b\n1,2\n"1,2\n3,4\n', "f.csv:3: a quoted value that begins in this row does not end"),
        ("a,b\r1,2\r", "f.csv:1: new-line character"),
    ],
)
def test_a_broken_table_is_named(text, reason):
    """The error has the file, the line and the way out, on one line."""
    with pytest.raises(UsageError) as raised:
        read(text)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_tsv_file_has_tabs_only(tmp_path):
    """The suffix decides: commas are text."""
    assert inputs_in(tmp_path, "a.tsv", "a,b\n1,2\n") == [{"a,b": "1,2"}]
    assert inputs_in(tmp_path, "a.txt", "a\tb\n1\t2\n", "csv") == AB


def test_a_value_of_a_megabyte(tmp_path):
    """The limit of the csv module does not hold."""
    csv.field_size_limit(1000)
    value = "x" * 1024**2
    assert inputs_in(tmp_path, "a.csv", f"a,b\n{value},2\n") == [{"a": value, "b": "2"}]


def test_a_quote_that_never_ends_does_not_read_the_whole_file(tmp_path):
    """The error comes from the row that begins with it, after a limited part of the file."""
    with pytest.raises(UsageError, match=r"a\.csv:2: a quoted value that begins in this row does not end"):
        items_in(tmp_path, "a.csv", 'a,b\n"1,2\n' + ("x" * 999 + "\n") * 15_000)


HEADERS = st.lists(TEXTS.map(str.strip).filter(bool), min_size=1, max_size=4, unique=True)


@given(HEADERS, st.data(), st.sampled_from([",", ";", "\t", "|"]), st.sampled_from(["\n", "\r\n"]))
def test_written_tables_read_back(header, data, delimiter, ending):
    """What Python's csv module writes is read unchanged."""
    assume(not header[0].lower().startswith(("sep=", '"sep=')))
    rows = data.draw(st.lists(st.tuples(*[TEXTS] * len(header)).filter(lambda row: any(map(str.strip, row)))))
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=ending, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    assert [one.input for one in read(out.getvalue(), delimiter)] == [
        dict(zip(header, row, strict=True)) for row in rows
    ]
