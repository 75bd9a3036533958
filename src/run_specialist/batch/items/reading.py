"""Read the items of a batch from a file or from standard input: JSON Lines, a JSON array, CSV, or lines of text."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from run_specialist.batch.item import InputRecord
from run_specialist.batch.items.csv_items import csv_items
from run_specialist.batch.items.decoded_lines import Lines, OnBad, decoded_lines
from run_specialist.batch.items.json_items import is_json_object, json_array_items, json_line_items
from run_specialist.batch.items.source import Source
from run_specialist.errors import UsageError

STDIN = "-"
FORMATS = ("jsonl", "csv", "lines")
"""The formats that can be given by name."""
_STDIN_TITLE = "standard input"
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv"}


def source_of(items: str, form: str | None = None) -> Source:
    """Return the items of a file, or of standard input for `-`.

    form: one of FORMATS; None = by the suffix of the file. Standard input is JSON Lines if its first line is a JSON
    object; everything else is lines of text.
    Raises UsageError for an unknown format or a file that does not exist; other errors come from reading.
    """
    if form is not None and form not in FORMATS:
        raise UsageError(f"there is no format {form!r}; use {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if items == STDIN:
        return Source(STDIN, _STDIN_TITLE, partial(_read, None, form), is_repeatable=False)
    path = Path(items)
    try:
        if path.is_dir():
            raise UsageError(
                f"{items} is a folder; name a file of items, or use `--files` with a glob such as 'docs/**/*.md'"
            )
        path.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(items, error) from None
    return Source(
        os.path.realpath(path),
        items,
        partial(_read, path, form or _SUFFIXES.get(path.suffix.lower(), "lines")),
        is_repeatable=path.is_file(),
    )


def read_items(items: str, form: str | None = None) -> Iterator[InputRecord]:
    """Yield the items of a file, or of standard input for `-`; empty lines are skipped.

    form: as for `source_of`.
    Raises UsageError, with the line, if the file cannot be read or an item is invalid.
    """
    return iter(source_of(items, form))


def _read(path: Path | None, form: str | None, bad: OnBad) -> Iterator[InputRecord]:
    title = _STDIN_TITLE if path is None else str(path)
    try:
        with nullcontext(_stdin()) if path is None else path.open("rb") as file:
            yield from _parsed(decoded_lines(file, title), title, form, bad)
    except (OSError, ValueError) as error:
        raise _unreadable(title, error) from None


def _parsed(lines: Lines, title: str, form: str | None, bad: OnBad) -> Iterator[InputRecord]:
    if form is None:
        before = []
        for line in lines:
            before.append(line)
            if line[1].strip():
                break
        form = "jsonl" if before and is_json_object(before[-1][1]) else "lines"
        lines = chain(before, lines)
    if form == "jsonl":
        return json_line_items(lines, title, bad)
    if form == "json":
        return json_array_items(lines, title)
    if form == "lines":
        return (InputRecord(text, f"{title}:{number}") for number, line in lines if (text := line.strip()))
    return csv_items(lines, title, bad, "\t" if form == "tsv" else None)


def _stdin() -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("standard input is closed; name a file of items instead of `-`")
    buffer = getattr(sys.stdin, "buffer", None)
    # A program may have replaced it by a text stream.
    return io.BytesIO(sys.stdin.read().encode("utf-8", "surrogatepass")) if buffer is None else buffer


def _unreadable(title: str, error: OSError | ValueError) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"{title} cannot be read: {reason}; name a file of items, or `-` for standard input")
