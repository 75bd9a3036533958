"""Read the items of a batch from JSON, CSV, lines of text, or the names of files."""

import codecs
import csv
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from run_specialist.batch.item import InputRecord
from run_specialist.errors import ToolError, UsageError, errors_as
from run_specialist.specialist.problems import shown
from run_specialist.tools.ignore import pattern_spec
from run_specialist.tools.sandbox import Sandbox, escape_path, files

LONGEST_LINE = 10 * 1024**2
"""Maximum length of a line; no model accepts a longer item [bytes]."""


def decoded_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their line ends, without a byte order mark.

    name: of the file, for errors.
    Raises UsageError for a line that is too long, or is not text.
    """
    for number, data in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
        where = f"{name}:{number}"
        if len(data) > LONGEST_LINE:
            raise UsageError(f"{where}: the line is longer than {LONGEST_LINE // 1024**2} MiB; shorten or split it")
        if b"\0" in data:
            raise UsageError(f"{where}: contains a NUL, so it is not text; save the items as UTF-8 text")
        try:
            yield (data.removeprefix(codecs.BOM_UTF8) if number == 1 else data).decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{where}: byte {error.start + 1} of the line is not UTF-8 (Latin-1 perhaps?); save the file as UTF-8"
            ) from None


@dataclass(frozen=True, slots=True)
class Source:
    """A source of items, read one by one; passed to a batch as its items."""

    name: str
    """Absolute path, glob pattern with its root, or `-`: part of the identity of a batch."""
    title: str
    """Its name in messages, as the user wrote it."""
    read: Callable[[], Iterator[InputRecord]]
    """Reads the items; raises UsageError for a bad one."""
    is_repeatable: bool
    """Whether the items can be read more than once."""


STDIN = "-"
FORMATS = ("jsonl", "csv", "lines")
"""The formats that can be given by name."""
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv"}


def source_of(items: str, form: str | None = None) -> Source:
    """Return the items of a file, or of standard input for `-`.

    form: one of FORMATS; None = by the suffix of the file. Standard input is JSON Lines if its first line is a JSON
    object; everything else is lines of text.
    Raises UsageError for a file that does not exist; other errors come from reading.
    """
    is_stdin = items == STDIN
    path, title = Path(items), "standard input" if is_stdin else items

    def readable() -> AbstractContextManager[None]:
        advice = "name a file of items, or `-` for standard input"
        return errors_as(UsageError, f"{title} cannot be read", OSError, ValueError, advice=advice)

    def read() -> Iterator[InputRecord]:
        if is_stdin and (sys.stdin is None or sys.stdin.closed):
            raise UsageError("standard input is closed; name a file of items instead of `-`")
        with readable(), nullcontext(sys.stdin.buffer) if is_stdin else path.open("rb") as file:
            lines = decoded_lines(file, title)
            named = form or (None if is_stdin else _SUFFIXES.get(path.suffix.lower(), "lines"))
            if named is None:
                before = []
                for line in lines:
                    before.append(line)
                    if line.strip():
                        break
                named = "jsonl" if before and is_json_object(before[-1]) else "lines"
                lines = chain(before, lines)
            yield from _READERS[named](lines, title)

    with readable():
        if not is_stdin and path.is_dir():
            raise UsageError(
                f"{items} is a folder; name a file of items, or use `--files` with a glob such as 'docs/**/*.md'"
            )
        if not is_stdin:
            path.stat()
    return Source(STDIN if is_stdin else os.path.realpath(path), title, read, not is_stdin and path.is_file())


def text_items(lines: Iterator[str], name: str) -> Iterator[InputRecord]:
    """Yield lines of text, skipping empty lines.

    name: of the file, for the places.
    """
    return (InputRecord(text, f"{name}:{number}") for number, line in enumerate(lines, 1) if (text := line.strip()))


_DELIMITERS = (",", ";", "\t", "|")
# The line with which spreadsheets name the delimiter.
_NAMED = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


def csv_items(lines: Iterator[str], name: str, delimiter: str | None = None) -> Iterator[InputRecord]:
    """Yield the rows of a CSV file as fields by name; rows without any value are skipped.

    A quoted value may contain line breaks. White space around names is removed, and a column without a name is called
    `column N`.
    name: of the file, for errors.
    delimiter: None to find it: by a line `sep=;`, else the one that is most frequent in the first line.
    """
    # The limit is one for the process, and too small for the content of a file; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    first = next(lines, "")
    named = _NAMED.fullmatch(first)
    delimiter = delimiter or (named[1] if named else max(_DELIMITERS, key=first.count))
    rows = csv.reader(lines if named else chain([first], lines), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        where = f"{name}:{rows.line_num + (2 if named else 1)}"
        try:
            cells = next(rows, None)
        except csv.Error as error:
            is_open = "end of data" in str(error) or "field limit" in str(error)
            reason = 'a quoted value that begins in this row does not end; close it with `"`' if is_open else str(error)
            raise UsageError(f"{where}: {reason}") from None
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if not header:
            header = [cell.strip() or f"column {number}" for number, cell in enumerate(cells, 1)]
            if twice := [column for column in header if header.count(column) > 1]:
                raise UsageError(
                    f"{where}: the header has the column {shown(twice[0])!r} more than once; rename one of them"
                )
        elif len(cells) == len(header):
            yield InputRecord(dict(zip(header, cells, strict=True)), where)
        else:
            raise UsageError(
                f"{where} has {len(cells)} value{'' if len(cells) == 1 else 's'}, but the header has {len(header)} "
                f"({shown(', '.join(header))}); add the missing ones, or quote values that contain {delimiter!r}"
            )


def json_line_items(lines: Iterator[str], name: str) -> Iterator[InputRecord]:
    """Yield the values of JSON Lines, skipping empty lines; questions are made only from objects and strings.

    name: of the file, for errors.
    """
    for one in text_items(lines, name):
        try:
            yield InputRecord(json.loads(str(one.input)), one.where)
        except (ValueError, RecursionError) as error:
            reason = f"{_reason(error)}; write one object or string per line"
            raise UsageError(f"{one.where} is not valid JSON: {reason}") from None


def json_array_items(lines: Iterator[str], name: str) -> Iterator[InputRecord]:
    """Yield the values of a JSON array, which is read as a whole; questions are made only from objects and strings.

    name: of the file, for errors.
    """
    try:
        values = json.loads("".join(lines))
    except (ValueError, RecursionError) as error:
        where = f"{name}:{error.lineno}" if isinstance(error, json.JSONDecodeError) else name
        reason = f"{_reason(error)}; give the format `jsonl` if it has one value per line"
        raise UsageError(f"{where} is not valid JSON: {reason}") from None
    if not isinstance(values, list):
        raise UsageError(f"{name} is not a JSON array; give the format `jsonl` if it has one value per line")
    for number, value in enumerate(values, 1):
        yield InputRecord(value, f"{name}: item {number}")


def is_json_object(line: str) -> bool:
    """Return whether a line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]


_READERS: dict[str, Callable[[Iterator[str], str], Iterator[InputRecord]]] = {
    "jsonl": json_line_items,
    "json": json_array_items,
    "csv": csv_items,
    "tsv": lambda lines, name: csv_items(lines, name, "\t"),
    "lines": text_items,
}


def files_source(pattern: str, root: Path, paths: Sequence[str] = ()) -> Source:
    """Return the files below a root that match a glob, sorted by path, as the file tools see them.

    Each has the fields `path` (relative to the root), `name` and `stem`; its content is not part of the question, but
    of its key. Symlinks are not followed; ignored and secret files are left out.
    pattern: `**` spans folders; without a `/` it matches names in every folder.
    paths: of the specialist; if given, other files are left out.
    Raises UsageError if the pattern is invalid or no file matches.
    """
    sandbox = Sandbox(root, paths)
    try:
        sandbox.require_root()
        inner = pattern.removeprefix(f"{sandbox.root.as_posix()}/")
        if not inner.strip("/ "):
            raise UsageError("the glob for the files is empty; use one such as 'docs/**/*.md'")
        spec = pattern_spec(inner)
        found = [file for file in files(sandbox, "") if spec.fullmatch(f"/{file}")]
    except ToolError as error:
        raise UsageError(str(error)) from None
    if not found:
        raise UsageError(
            f"no file below {root} matches {pattern!r}; `**` spans folders, and ignored, secret and linked files are "
            "left out"
        )

    def read() -> Iterator[InputRecord]:
        for relative in found:
            path = PurePosixPath(escape_path(relative))
            with errors_as(UsageError, f"{path} cannot be read", OSError), sandbox.open(relative) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            yield InputRecord({"path": str(path), "name": path.name, "stem": path.stem}, str(path), digest)

    return Source(f"{sandbox.root}: {pattern}", pattern, read, is_repeatable=True)
