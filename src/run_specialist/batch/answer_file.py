"""Write the answers of a batch to a file, a stream or a folder."""

import csv
import errno
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import stat
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, TextIO

from run_specialist.batch.item import Done
from run_specialist.batch.questions import as_text, fields_of
from run_specialist.batch.read_items import LONGEST_LINE
from run_specialist.errors import UsageError, on_error
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.project import result_path
from run_specialist.store.rows import outcome_of

Row = Mapping[str, Any]
"""The object of `Done.as_row`."""
_NOT_PLAIN = re.compile(r"[^ -~]")


def row_line(done: Done) -> bytes:
    """Return the row of an item as one line of JSON in UTF-8, with its line end.

    Characters that could control a terminal, and halves of surrogate pairs, are escaped; the JSON value is the same.
    """
    text = json.dumps(done.as_row(), ensure_ascii=False)
    if not text.isprintable():
        text = _NOT_PLAIN.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)
    return f"{text}\n".encode()


def parse_row(line: bytes) -> Row | None:
    """Return the row on a line; None if the line is no row, e.g. because writing it was interrupted."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_row = (
        isinstance(value, dict)
        and isinstance(value.get("number"), int)
        and {"input", "outcome", "state", "run_id"} <= value.keys()
        and isinstance(value["outcome"], dict | None)
    )
    return value if is_row else None


# Texts by column.
_Cells = dict[str, str]
FIRST = "number"
LAST = ("state", "answer", "evidence", "verified", "gaps", "calls", "cost_usd", "seconds", "run_id", "error")
"""The columns that follow those of the input."""
# A spreadsheet takes such a text for a formula, which may call other programs.
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?(?:[eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r"\A'(?=[=+\-@\t\r\n＝＋－＠'])")


def input_cells(given: object) -> _Cells:
    """Return the cells of an input, one for each field; a text is the field `item`.

    A field with the name of another column gets the prefix `input.`.
    """
    fields = fields_of(given) if isinstance(given, str | Mapping) else {"item": given}
    cells: dict[str, str] = {}
    for name, value in fields.items():
        column = name
        while column in (FIRST, *LAST) or (column != name and column in fields):
            column = f"input.{column}"
        cells[column] = as_text(value)
    return cells


def cells_of(row: Row) -> _Cells:
    """Return the cells of a row; unknown values are empty."""
    outcome = row["outcome"] or {}
    evidence, seconds = outcome.get("evidence") or (), outcome.get("duration_s")
    values = (
        row["state"],
        outcome.get("answer"),
        len(evidence) if outcome else None,
        sum(one.get("verified") is True for one in evidence) if outcome else None,
        "; ".join(outcome.get("gaps") or ()),
        (outcome.get("tool_calls") or {}).get("used"),
        outcome.get("cost_usd"),
        None if seconds is None else round(seconds, 1),
        row["run_id"],
        row.get("error"),
    )
    texts = ("" if value is None else str(value) for value in values)
    return {FIRST: str(row["number"])} | input_cells(row["input"]) | dict(zip(LAST, texts, strict=True))


def guarded_cell(text: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: formulas, but not numbers, get an apostrophe as prefix.

    A text that already begins with such an apostrophe gets another one, so that `unguarded_cell` restores every text.
    """
    if _QUOTED.match(text) or (_FORMULA.match(text) and not _NUMBER.fullmatch(text)):
        return f"'{text}"
    return text


def unguarded_cell(cell: str) -> str:
    """Return the text of a cell that `guarded_cell` has made."""
    return _QUOTED.sub("", cell, count=1)


class StoredRow(NamedTuple):
    """A row of a file of answers."""

    cells: _Cells
    line: bytes = b""
    """Its line of JSON; empty in a CSV file."""
    start: int = 0
    """Position of the line [bytes]."""

    @property
    def place(self) -> tuple[str, str]:
        """The number and the input; two rows with the same place are about the same item."""
        # Only what CSV and JSON have in common identifies a row.
        given = {column: cell for column, cell in self.cells.items() if column not in (FIRST, *LAST) and cell}
        return self.cells[FIRST], hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()


def stored_rows(path: Path, *, is_csv: bool = False, may_be_torn: bool = True) -> Iterator[StoredRow]:
    """Yield the rows of a file.

    may_be_torn: skip lines that are no rows, because writing them was interrupted; otherwise they raise UsageError.
    """
    number = start = 0
    header: list[str] = []
    try:
        with path.open("rb") as file:
            if not is_csv:
                for number, line in enumerate(file, 1):  # noqa: B007 - used below
                    if (row := parse_row(line)) is not None:
                        yield StoredRow(cells_of(row), line, start)
                    elif line.strip() and not may_be_torn:
                        raise ValueError  # noqa: TRY301 - reported below
                    start += len(line)
                return
            csv.field_size_limit(max(csv.field_size_limit(), 10 * LONGEST_LINE))
            records = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""), strict=True)
            for number, cells in enumerate(records, 1):  # noqa: B007 - used below
                if header and cells:
                    found = dict(zip(header, map(unguarded_cell, cells), strict=True))
                    int(found[FIRST])
                    yield StoredRow(found)
                elif not header:
                    header = cells
                    if header[:1] != [FIRST] or header[-len(LAST) :] != [*LAST]:
                        raise ValueError  # noqa: TRY301 - reported below
    except (csv.Error, ValueError, TypeError, AttributeError):
        raise UsageError(
            f"{path}, row {number}, is not a row of answers; the file is not overwritten, choose another one or delete "
            "it"
        ) from None


_OTHER_FORMATS = (".json", ".tsv", ".xlsx", ".xls", ".parquet")


class AnswerFile(AbstractContextManager["AnswerFile"]):
    """A file of answers: JSON Lines, or CSV if its name ends with `.csv`.

    with AnswerFile(Path("answers.jsonl")) as answers:
        async for done in batch:
            answers.write(done)
        answers.finish()

    Rows are appended to `FILE.part` as JSON Lines. `finish` replaces the file by them. Without it, at an early end or
    after a crash, the file keeps the rows that this call did not replace; after a crash, the next call replaces the
    file. So the file is always complete and readable, and no row that was written is lost.
    """

    def __init__(self, path: Path, *, ordered: bool = False, items: Path | None = None) -> None:
        """Check that the file can be written, and add the rows that a crashed call has left.

        ordered: sort the rows by number instead of by the end of their items.
        items: the file with the items, which must not be overwritten.
        Raises UsageError also if the file exists and does not contain answers, or another process writes it.
        """
        self.path = path
        self._ordered = ordered
        self._is_csv = path.suffix.lower() == ".csv"
        self._is_open = True
        self._earlier: dict[str, int] | None = None
        try:
            self._target = target = result_path(path)
            if path.suffix.lower() in _OTHER_FORMATS:
                raise UsageError(f"{path}: answers are written as JSON Lines or CSV; use the suffix .jsonl or .csv")
            if target.is_dir():
                raise UsageError(f"{path} is a folder; name a file in it for the answers")
            if not target.parent.is_dir():
                raise UsageError(f"{path}: the folder {target.parent} does not exist; create it first")
            if target.exists() and not target.is_file():
                raise UsageError(f"{path} is not a regular file; write the answers to standard output instead")
            if items is not None and os.path.realpath(items) == str(target):
                raise UsageError(f"{path} is the file with the items; choose another file for the answers")
            self.part = target.with_name(f"{target.name}.part")
            """The file with the rows so far, as JSON Lines."""
            self._descriptor = _opened_and_locked(self.part, path)
            self._size = os.fstat(self._descriptor).st_size
            with on_error(lambda: self._close(keep=self._size > 0)):
                for _ in self._old_rows():
                    pass
                if self._size:
                    self._replace(keep_old=True)
                    os.ftruncate(self._descriptor, 0)
                    self._size = 0
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, done: Done) -> None:
        """Append the row of an item, whole or not at all; raises UsageError if the disk is full."""
        line = row_line(done)
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise self._unwritable(error) from None
        self._size += len(line)

    def earlier(self, run_id: str) -> Outcome | None:
        """Return the outcome with an answer that the file has for a run; None for others, and in CSV files."""
        if self._earlier is None:
            self._earlier = {row.cells["run_id"]: row.start for row in self._old_rows() if row.line}
        if run_id not in self._earlier:
            return None
        with self._target.open("rb") as file:
            file.seek(self._earlier[run_id])
            row = parse_row(file.readline())
        is_answer = row is not None and row["run_id"] == run_id and row["state"] in {"answered", "landed", "partial"}
        return outcome_of(row["outcome"]) if row is not None and is_answer else None

    def finish(self) -> None:
        """Replace the file by the rows of this call, because all items have one; raises UsageError."""
        self._end(whole=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._end(whole=False)
        except UsageError:
            # The rows are in the other file, and the first error says more.
            if error is None:
                raise

    def _end(self, *, whole: bool) -> None:
        if not self._is_open:
            return
        self._is_open = False
        try:
            if self._size:
                self._replace(keep_old=not whole)
            self._close(keep=False)
        except BaseException as error:
            self._close(keep=True)
            if not isinstance(error, OSError):
                raise
            raise self._unwritable(error, f"; the rows of this call are in {self.part}") from None

    def _close(self, *, keep: bool) -> None:
        """Close the file with the rows of this call; delete it unless it is kept."""
        if not keep:
            self.part.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _old_rows(self) -> Iterator[StoredRow]:
        return stored_rows(self._target, is_csv=self._is_csv, may_be_torn=False) if self._target.exists() else iter(())

    def _rows(self, *, keep_old: bool) -> Iterator[StoredRow]:
        """Yield the old rows that no new one replaces (by its run, or its input at the same place), then the new ones.

        The rows are read anew for each step, so that memory is bounded.
        """
        if keep_old:
            runs, places = set(), set()
            for row in stored_rows(self.part):
                runs.add(row.cells["run_id"] or None)
                places.add(row.place)
            yield from (row for row in self._old_rows() if row.cells["run_id"] not in runs and row.place not in places)
        yield from stored_rows(self.part)

    def _replace(self, *, keep_old: bool) -> None:
        """Replace the file, in one step, by the new rows, after those of its own that they do not replace."""
        # Only the process that has locked the other file writes this one; a crash may have left it.
        new_file = self._target.with_name(f"{self._target.name}.new")
        new_file.unlink(missing_ok=True)
        with on_error(lambda: new_file.unlink(missing_ok=True)):
            with new_file.open("xb") as out:
                rows = self._rows(keep_old=keep_old)
                rows = _by_number(rows) if self._ordered else rows
                if self._is_csv:
                    _write_csv(out, rows, chain.from_iterable(row.cells for row in self._rows(keep_old=keep_old)))
                else:
                    out.writelines(row.line.rstrip(b"\n") + b"\n" for row in rows)
                out.flush()
                os.fsync(out.fileno())
            if self._target.exists():
                shutil.copymode(self._target, new_file)
            new_file.replace(self._target)

    def _unwritable(self, error: OSError, note: str = "") -> UsageError:
        return UsageError(
            f"{self.path} cannot be written: {error.strerror or error}{note}; fix that, and repeat the call to write "
            "it again"
        )


def _by_number(rows: Iterable[StoredRow]) -> Iterator[StoredRow]:
    # The table is a temporary file, because the rows may not fit into memory.
    with closing(sqlite3.connect("")) as table:
        table.execute("create table rows (number integer, cells, line)")
        values = ((row.cells[FIRST], json.dumps(row.cells), row.line) for row in rows)
        table.executemany("insert into rows values (?, ?, ?)", values)
        for cells, line in table.execute("select cells, line from rows order by number, rowid"):
            yield StoredRow(json.loads(cells), line)


def _write_csv(out: BinaryIO, rows: Iterable[StoredRow], columns: Iterable[str]) -> None:
    """Write rows below a header.

    columns: those of all rows; their inputs may have different ones.
    """
    inputs = [column for column in dict.fromkeys(columns) if column not in (FIRST, *LAST)]
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="")
    writer = csv.DictWriter(text, [FIRST, *inputs, *LAST], restval="")
    writer.writeheader()
    writer.writerows({column: guarded_cell(cell) for column, cell in row.cells.items()} for row in rows)
    text.detach()


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def _lock(descriptor: int) -> None:
    """Raise BlockingIOError if another process, or another open file of this one, has the lock."""
    # On Windows, another process cannot replace an open file.
    if sys.platform != "win32":
        import fcntl  # noqa: PLC0415 - missing on Windows

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise


def _opened_and_locked(path: Path, of: Path) -> int:
    """Open or create a file for appending, locked while it is open, so that one process writes it; keep its content.

    of: the file that it will replace, for the error.
    Raises OSError, or UsageError if another process writes it.
    """
    while True:
        descriptor = os.open(path, _FLAGS, 0o666)
        try:
            _lock(descriptor)
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise OSError(errno.EINVAL, f"{path} is not a regular file")  # noqa: TRY301 - closed below
            # Another process may have just renamed or deleted it.
            with suppress(FileNotFoundError):
                if os.path.samestat(info, path.lstat()):
                    return descriptor
        except BaseException as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise
            raise UsageError(
                f"{of} is being written by another process; wait for its end, or choose another file"
            ) from None
        os.close(descriptor)


INDEX = "index.md"
_OWN = re.compile(r"(?:index|[0-9]{5,}-[a-z0-9-]+)\.md")
_LONGEST_SLUG = 40
_LONGEST_TITLE = 80
_MARKS = {True: "found in what was read", False: "not found in what was read", None: "not looked up"}
_TASK = (
    "Bring the answers together into one: what they have in common, where they differ or contradict each other, and "
    "what none of them could answer. Name the items that support each statement."
)


class AnswerFolder:
    """A folder with one Markdown file for each answer and an index of all of them."""

    def __init__(self, folder: Path) -> None:
        """Create the folder, readable by its owner only; files of an earlier call are deleted. Raises OSError.

        folder: the root for the specialist that reads the answers; it contains nothing else.
        """
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in folder.iterdir():
            if _OWN.fullmatch(old.name):
                old.unlink()
        self._lines: dict[int, str] = {}
        self._states: Counter[str] = Counter()

    def add(self, done: Done) -> Path:
        """Write the file of an item and return its path; raises OSError."""
        # A path identifies an item, otherwise its first field.
        fields = fields_of(done.input)
        main = as_text(fields.get("path", next(iter(fields.values()), "")))
        title = " ".join(main[: 4 * _LONGEST_TITLE].split())
        if len(title) > _LONGEST_TITLE:
            title = f"{title[: _LONGEST_TITLE - 1]}…"
        slug = slug_of(main, _LONGEST_SLUG) or "item"
        path = self.folder / f"{done.number:05d}-{slug}.md"

        given, outcome = done.input, done.outcome
        if isinstance(given, Mapping):
            given = "\n".join(f"- {name}: " + as_text(value).replace("\n", "\n  ") for name, value in given.items())
        parts = [f"# Item {done.number}: {title}"]
        parts.append(f"State: {done.state}" + (f"  \nRun: {done.run_id}" if done.run_id else ""))
        parts.append(f"## Input\n\n{given if given is not done.input else given.strip()}")
        if outcome is not None:
            parts.append(f"## Answer\n\n{outcome.answer.strip() or '(none)'}")
            quotes = (
                f"{_quoted(one.quote)}\n>\n> {' '.join(one.source.split())} ({_MARKS[one.verified]})"
                for one in outcome.evidence
            )
            parts += ["## Quotes", *quotes] if outcome.evidence else []
            gaps = "\n".join(f"- {' '.join(gap.split())}" for gap in outcome.gaps)
            parts += ["## Gaps", gaps] if gaps else []
        parts += [f"## Error\n\n{done.error}"] if done.error else []
        # A NUL would make it a binary file for the tools that search it.
        text = "\n\n".join(parts).replace("\0", "\ufffd")
        path.write_text(f"{text}\n", encoding="utf-8", errors="replace")
        self._lines[done.number] = f"- [{path.name}]({path.name}): {done.state}: {title}"
        self._states[done.state] += 1
        return path

    def finish(self, specialist: str, asked: str | None, question: str = "") -> str:
        """Write the index and return the question for the specialist that reads the folder; raises OSError.

        specialist: the name of the specialist that answered.
        asked: its question, as a template; None if each item was its own question.
        question: what to ask about the answers; empty = to bring them together.
        """
        total = f"{len(self._lines):,} answer{'' if len(self._lines) == 1 else 's'}"
        counts = ", ".join(f"{count} {state}" for state, count in self._states.most_common()) or "none"
        about = f"The question about each item was:\n\n{_quoted(asked)}" if asked else "Each item was its own question."
        lines = "\n".join(self._lines[number] for number in sorted(self._lines))
        index = f"# {total} of the specialist {specialist}\n\n{counts}\n\n{about}\n\n{lines}\n"
        (self.folder / INDEX).write_text(index, encoding="utf-8", errors="replace")
        told = (
            f"The folder contains {total} of the specialist `{specialist}`, one file for each item ({counts}). "
            f"`{INDEX}` lists them; each file has the input, the answer and its quotes.\n\n{about}"
        )
        # A question of the caller comes first, where lists of runs show it.
        return f"{question}\n\n{told}" if question else f"{told}\n\n{_TASK}"


def slug_of(text: str, longest: int) -> str:
    """Return the ASCII words of a text, joined by hyphens, for a name of at most so many characters; may be empty."""
    plain = unicodedata.normalize("NFKD", text[: 4 * longest]).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:longest].strip("-")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or ">"


@dataclass
class AnswerStream(AbstractContextManager["AnswerStream"]):
    """Rows of answers as JSON Lines on a stream; used like an `AnswerFile`."""

    stream: TextIO
    ordered: bool = False
    """Write the rows in the order of the items; a row waits for those before it."""
    _next: int = 1
    # Items that wait for those before them.
    _held: dict[int, Done] = field(default_factory=dict)

    def write(self, done: Done) -> None:
        """Write the row of an item.

        Raises BrokenPipeError if the reader has closed the stream, UsageError if it cannot be written for another
        reason.
        """
        if not self.ordered:
            self._print(done)
            return
        self._held[done.number] = done
        while self._next in self._held:
            self._next += 1
            self._print(self._held.pop(self._next - 1))

    def finish(self) -> None:
        """Write the rows that were held back; raises the same errors as `write`."""
        for number in sorted(self._held):
            self._print(self._held.pop(number))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not isinstance(error, BrokenPipeError | UsageError):
            self.finish()

    def _print(self, done: Done) -> None:
        is_utf8 = (self.stream.encoding or "utf-8").lower().replace("-", "") == "utf8"
        try:
            self.stream.write(row_line(done).decode() if is_utf8 else f"{json.dumps(done.as_row())}\n")
            self.stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(
                f"standard output cannot be written: {error.strerror or error}; repeat the call to continue"
            ) from None
