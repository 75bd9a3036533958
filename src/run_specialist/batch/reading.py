"""Read the items of a batch from a file: one JSON value or one text per line."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from run_specialist.batch.item import Input
from run_specialist.errors import UsageError

STDIN = "-"
_JSON_LINES = (".jsonl", ".ndjson")


def read_items(source: str) -> Iterator[Input]:
    """Yield the items of a file, or of standard input for `-`; empty lines are skipped.

    Lines of a `.jsonl` file are JSON objects or strings; those of other files are texts.
    Raises UsageError, with the line, if the file cannot be read or a line is invalid.
    """
    if source == STDIN:
        yield from _lines(sys.stdin, source, as_json=False)
        return
    path = Path(source)
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from _lines(file, source, as_json=path.suffix.lower() in _JSON_LINES)
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{source} is not UTF-8 text; convert it") from None


def _lines(file: IO[str], source: str, *, as_json: bool) -> Iterator[Input]:
    for number, line in enumerate(file, 1):
        if text := line.strip():
            yield _value(text, f"{source}:{number}") if as_json else text


def _value(text: str, where: str) -> Input:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where}: not valid JSON: {error}") from None
    if not isinstance(value, str | Mapping):
        raise UsageError(f"{where}: an item must be an object or a string, got {type(value).__name__}")
    return value
