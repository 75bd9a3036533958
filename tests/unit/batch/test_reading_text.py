"""Items as lines of text, from files and standard input; encodings and sizes."""

import io
import os
import sys
import threading

import pytest

from run_specialist.batch.read_items import LONGEST_LINE, source_of
from run_specialist.errors import UsageError
from tests.unit.batch.item_sources import inputs_in, items_in


def feed(monkeypatch, content: bytes) -> None:
    """Replace standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_each_line_is_a_text(tmp_path):
    """White space around a line and empty lines are removed; other characters are not."""
    text = "\ufeffone\r\n\n  two {three} \u2028 four\t\n# five"
    assert inputs_in(tmp_path, "a.txt", text) == ["one", "two {three} \u2028 four", "# five"]
    assert items_in(tmp_path, "items", "x\n\ny")[1].where == f"{tmp_path}/items:3"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        (b'"a"\n{"a": 1}\n', ['"a"', '{"a": 1}']),
        (b"", []),
    ],
)
def test_standard_input_is_json_if_its_first_line_is_an_object(monkeypatch, content, expected):
    """Otherwise each line is a text."""
    feed(monkeypatch, content)
    source = source_of("-")
    assert not source.is_repeatable
    assert [one.input for one in source.read()] == expected


def test_the_format_of_standard_input_can_be_given(monkeypatch):
    """CSV from a pipe; its places name standard input."""
    feed(monkeypatch, b"a;b\n1;2\n")
    (found,) = source_of("-", "csv").read()
    assert (found.input, found.where) == ({"a": "1", "b": "2"}, "standard input:2")


def test_standard_input_that_is_closed(monkeypatch):
    """An error in one line."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="standard input is closed"):
        [*source_of("-").read()]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("é\n".encode("latin-1"), r"a\.txt:2: byte 1 of the line is not UTF-8 \(Latin-1 perhaps\?\)"),
        (b"a\0b\n", r"a\.txt:2: contains a NUL"),
        ("x".encode("utf-16"), r"a\.txt:2: contains a NUL"),
        (b"x" * (LONGEST_LINE + 1), r"a\.txt:2: the line is longer than 10 MiB"),
    ],
)
def test_a_line_that_is_no_text_is_named(tmp_path, content, reason):
    """The error has the file, the line and the way out."""
    with pytest.raises(UsageError, match=reason):
        items_in(tmp_path, "a.txt", b"fine\n" + content)


def test_items_are_read_one_by_one(tmp_path):
    """The first item is there before the input ends."""
    os.mkfifo(tmp_path / "pipe")
    source = source_of(str(tmp_path / "pipe"))
    assert not source.is_repeatable
    release = threading.Event()

    def write():
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            pipe.write(b"one\n")
            release.wait(60)
            pipe.write(b"two\n")

    writer = threading.Thread(target=write)
    writer.start()
    items = source.read()
    assert next(items).input == "one"
    release.set()
    assert next(items).input == "two"
    assert next(items, None) is None
    writer.join()


@pytest.mark.parametrize(
    ("items", "form", "reason"),
    [
        ("missing.csv", None, r"missing\.csv cannot be read: No such file"),
        ("a\0b", None, "cannot be read: "),
        (".", None, r"\. is a folder; name a file of items, or use `--files`"),
    ],
)
def test_what_cannot_be_read(items, form, reason):
    """The error says what to name instead."""
    with pytest.raises(UsageError, match=reason):
        source_of(items, form)
