"""Items are checked before anything is sent."""

import io
import sys

import pytest

from run_specialist.batch.questions import CheckedItems, Template, check
from run_specialist.batch.read_items import files_source, source_of
from run_specialist.errors import UsageError

TEMPLATE = Template("Why {a}?")


def checked(folder, content, name="a.jsonl", template=TEMPLATE):
    """Write a file of items and check it."""
    (folder / name).write_text(content)
    return check(source_of(str(folder / name)), template)


def test_valid_items_have_a_number_and_can_be_read_again(tmp_path):
    """Each iteration reads the file."""
    items = checked(tmp_path, '{"a": 1}\n\n{"a": 2}\n')
    assert len(items) == 2
    assert [one.input for one in items] == [one.input for one in items] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ('{"b": 1}', r"2 has no field 'a'"),
        ("7", r"2 must be an object or a string, got int"),
        ("{\n3", r"2 is not valid JSON"),
        ('{"a": "x\\u0000"}', r"2 contains a NUL character"),
    ],
)
def test_the_first_bad_item_is_named(tmp_path, rest, reason):
    """With its place, in one line."""
    with pytest.raises(UsageError, match=rf"^[^ ]*a\.jsonl:{reason}"):
        checked(tmp_path, f'{{"a": 1}}\n{rest}\n')


def test_a_field_that_the_header_lacks_is_one_error(tmp_path):
    """Not one for each row."""
    with pytest.raises(UsageError) as raised:
        checked(tmp_path, "b,c\n1,2\n3,4\n", "a.csv")
    assert str(raised.value).startswith(f"{tmp_path}/a.csv:2 has no field 'a', which the question needs; it has b, c")


def test_a_question_without_a_field_is_an_error(tmp_path):
    """It would be paid once for every item."""
    with pytest.raises(UsageError, match=r"the question 'Why\?' names no field, .* braces into it: b, c$"):
        checked(tmp_path, "b,c\n1,2\n", "a.csv", Template("Why?"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt"])
def test_no_items_is_an_error(tmp_path, name):
    """An empty file."""
    with pytest.raises(UsageError, match=rf"{name} has no items"):
        checked(tmp_path, "\n\n", name)


def test_of_standard_input_the_first_item_is_checked(monkeypatch):
    """The others are read as they come."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}\n{"b": 2}\n')))
    items = check(source_of("-"), TEMPLATE)
    assert not isinstance(items, CheckedItems)
    assert [one.input for one in items] == [{"a": 1}, {"b": 2}]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"b": 1}\n')))
    with pytest.raises(UsageError, match="standard input:1 has no field 'a'"):
        check(source_of("-"), TEMPLATE)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    with pytest.raises(UsageError, match="standard input has no items"):
        check(source_of("-"), TEMPLATE)


def test_files_are_checked(tmp_path):
    """A field that files do not have is one error, and their number is known."""
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("x")
    assert len(check(files_source("*.md", tmp_path), Template("{path}?"))) == 2
    with pytest.raises(UsageError, match=r"a\.md has no field 'pfad', which the question needs; did you mean \{path\}"):
        check(files_source("*.md", tmp_path), Template("{pfad}?"))
