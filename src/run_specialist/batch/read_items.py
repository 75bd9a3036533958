"""Read the items of a batch from JSON, CSV, lines of text, or the names of files."""

import codecs
import csv
import hashlib
import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NoReturn

from run_specialist.batch.item import InputRecord
from run_specialist.errors import ToolError, UsageError
from run_specialist.specialist.problems import shown
from run_specialist.tools.sandbox import Sandbox, escape_path, files, pattern_spec

LONGEST_LINE = 10 * 1024**2
"""Maximum length of a line; no model accepts a longer item [bytes]."""
Lines = Iterator[tuple[int, str]]
"""Line numbers, from 1, with the lines and their line ends."""
OnBad = Callable[[UsageError], None]
"""Called with the error of an item that can be skipped; raises the error, or records it."""
_OTHER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def stop(error: UsageError) -> NoReturn:
    """Raise the error of a bad item."""
    raise error


def decoded_lines(file: BinaryIO, name: str) -> Lines:
    """Yield the lines of a UTF-8 file, without a byte order mark.

    name: of the file, for errors.
    Raises UsageError for a line that is too long, or is not text.
    """
    number = 0
    while data := file.readline(LONGEST_LINE + 1):
        number += 1
        where = f"{name}:{number}"
        if len(data) > LONGEST_LINE:
            raise UsageError(f"{where}: the line is longer than {LONGEST_LINE // 1024**2} MiB; shorten or split it")
        if number == 1:
            for mark, encoding in _OTHER_MARKS:
                if data.startswith(mark):
                    raise UsageError(f"{where}: the file is {encoding}; save it as UTF-8")
            data = data.removeprefix(codecs.BOM_UTF8)
        if b"\0" in data:
            raise UsageError(f"{where}: contains a NUL, so it is not text; save the items as UTF-8 text")
        try:
            yield number, data.decode()
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
    read: Callable[[OnBad], Iterator[InputRecord]]
    """Reads the items; called with a function for bad items. Raises UsageError if it cannot continue."""
    is_repeatable: bool
    """Whether the items can be read more than once."""

    def __iter__(self) -> Iterator[InputRecord]:
        """Yield the items; raises UsageError for a bad one."""
        return self.read(stop)


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


def _read(path: Path | None, form: str | None, bad: OnBad) -> Iterator[InputRecord]:
    title = _STDIN_TITLE if path is None else str(path)
    try:
        if path is not None:
            input_file: AbstractContextManager[BinaryIO] = path.open("rb")
        elif sys.stdin is None or sys.stdin.closed:
            raise UsageError("standard input is closed; name a file of items instead of `-`")
        elif hasattr(sys.stdin, "buffer"):
            input_file = nullcontext(sys.stdin.buffer)
        else:
            # A program may have replaced it by a text stream.
            input_file = nullcontext(io.BytesIO(sys.stdin.read().encode("utf-8", "surrogatepass")))
        with input_file as file:
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


def _unreadable(title: str, error: OSError | ValueError) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"{title} cannot be read: {reason}; name a file of items, or `-` for standard input")


_DELIMITERS = (",", ";", "\t", "|")
"""Tried in this order; the first delimiter that gives the most columns is used."""
_SAMPLE_LINES = 50
_SAMPLE_CHARACTERS = 65_536
# The line with which spreadsheets name the delimiter.
_NAMED = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


def csv_items(lines: Lines, name: str, bad: OnBad, delimiter: str | None = None) -> Iterator[InputRecord]:
    """Yield the rows of a CSV file as fields by name; rows without any value are skipped.

    A quoted value may contain line breaks. White space around names is removed, and a column without a name is called
    `column N`.
    name: of the file, for errors.
    bad: called for a row with another number of values than the header.
    delimiter: None to find it: by a line `sep=;`, else the one that gives the first rows equally many columns.
    """
    # The limit is one for the process, and too small for the content of a file; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    first = [*islice(lines, 1)]
    if first and (named := _NAMED.fullmatch(first[0][1])):
        delimiter, first = delimiter or named[1], []
    if delimiter is None:
        first += _sample(lines, sum(len(text) for _, text in first))
        delimiter = _sniff([text for _, text in first])
    rows = _rows(chain(first, lines), name, delimiter)
    where, cells = next(rows, (name, []))
    header = [cell.strip() or f"column {number}" for number, cell in enumerate(cells, 1)]
    twice = [column for column, count in Counter(header).items() if count > 1]
    if twice:
        raise UsageError(f"{where}: the header has the column {shown(twice[0])!r} more than once; rename one of them")
    for where, cells in rows:
        if len(cells) == len(header):
            yield InputRecord(dict(zip(header, cells, strict=True)), where)
            continue
        sign = "a tab" if delimiter == "\t" else f"`{delimiter}`"
        advice = f"quote a value that contains {sign}" if len(cells) > len(header) else "add the missing ones"
        values = f"{len(cells)} value{'' if len(cells) == 1 else 's'}"
        columns = f"{len(header)} ({shown(', '.join(header))})"
        bad(UsageError(f"{where} has {values}, but the header has {columns}; {advice}"))


def _sample(lines: Lines, size: int) -> Iterator[tuple[int, str]]:
    for one in islice(lines, _SAMPLE_LINES):
        yield one
        size += len(one[1])
        if size > _SAMPLE_CHARACTERS:
            return


def _sniff(sample: Sequence[str]) -> str:
    """Return the delimiter that gives each row the same number of columns, else the one that splits the header most."""
    best, most = _DELIMITERS[0], (False, 1)
    for delimiter in _DELIMITERS:
        widths = _widths(sample, delimiter)
        alike = len(set(widths)) == 1
        if widths and widths[0] > 1 and (alike, widths[0]) > most:
            best, most = delimiter, (alike, widths[0])
    return best


def _widths(sample: Sequence[str], delimiter: str) -> list[int]:
    """Return the number of columns of each row; empty if the quotes do not match with the delimiter."""
    widths: list[int] = []
    try:
        # `extend` keeps what it has when the reader raises an error.
        widths.extend(len(row) for row in csv.reader(sample, delimiter=delimiter, strict=True) if any(row))
    except csv.Error as error:
        # A quoted value may continue after the sample; its row is not counted.
        return widths if "end of data" in str(error) else []
    return widths


def _rows(lines: Lines, name: str, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the values of each row that has any; raises UsageError for wrong quotes."""
    last = 0

    def texts() -> Iterator[str]:
        nonlocal last
        for last, text in lines:  # noqa: B007 - read outside
            yield text

    rows = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        before = last
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise UsageError(_syntax(f"{name}:{before + 1}", error)) from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield f"{name}:{before + 1}", cells


def _syntax(where: str, error: csv.Error) -> str:
    text = str(error)
    if "end of data" in text or "field limit" in text:
        return f'{where}: a quoted value that begins in this row does not end; close it with `"`'
    if "new-line" in text:
        return f"{where}: a carriage return has no line feed after it; save the file with LF or CRLF line ends"
    return f'{where}: {text}; write a quote inside a quoted value as `""`'


def json_line_items(lines: Lines, name: str, bad: OnBad) -> Iterator[InputRecord]:
    """Yield the values of JSON Lines, skipping empty lines; questions are made only from objects and strings.

    name: of the file, for errors.
    bad: called for a line that is invalid.
    """
    for number, line in lines:
        if text := line.strip():
            where = f"{name}:{number}"
            try:
                value = _DECODER.decode(text)
            except (ValueError, RecursionError) as error:
                bad(UsageError(f"{where} is not valid JSON: {_reason(error)}; write one object or string per line"))
            else:
                yield InputRecord(value, where)


def json_array_items(lines: Lines, name: str) -> Iterator[InputRecord]:
    """Yield the values of a JSON array, which is read as a whole; questions are made only from objects and strings.

    name: of the file, for errors.
    """
    try:
        values = _DECODER.decode("".join(line for _, line in lines))
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
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(_DECODER.decode(line.strip()), dict)
    except (ValueError, RecursionError):
        return False


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


_PART = 1024**2
_WILD = re.compile(r"[*?\[{\\]")


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
        inner = pattern.removeprefix(f"{sandbox.root.as_posix()}/").removeprefix("./")
        if not inner.strip("/ "):
            raise UsageError("the glob for the files is empty; use one such as 'docs/**/*.md'")
        spec = pattern_spec(inner)
        # The walk begins in the folder that the pattern names before its first wildcard.
        found = [file for file in files(sandbox, _start(inner, sandbox)) if spec.fullmatch(f"/{file}")]
    except ToolError as error:
        raise UsageError(str(error)) from None
    if not found:
        raise UsageError(
            f"no file below {root} matches {pattern!r}; `**` spans folders, and ignored, secret and linked files are "
            "left out"
        )

    def read(bad: OnBad) -> Iterator[InputRecord]:
        for relative in found:
            where, digest = escape_path(relative), hashlib.sha256()
            try:
                with sandbox.open(relative) as file:
                    while part := file.read(_PART):
                        digest.update(part)
            except OSError as error:
                bad(UsageError(f"{where} cannot be read: {error.strerror or error}"))
            else:
                path = PurePosixPath(where)
                yield InputRecord({"path": where, "name": path.name, "stem": path.stem}, where, digest.hexdigest())

    return Source(f"{sandbox.root}: {pattern}", pattern, read, is_repeatable=True)


def _start(pattern: str, sandbox: Sandbox) -> str:
    folders = pattern.strip("/").split("/")[:-1]
    plain = next((index for index, name in enumerate(folders) if _WILD.search(name)), len(folders))
    start = "/".join(folders[:plain])
    # Below a symlink or a hidden folder there is nothing to find; searching from the root says so in the same words.
    with suppress(ToolError):
        if start and (sandbox.root / start).is_dir() and sandbox.locate(start) == start:
            return start
    return ""
