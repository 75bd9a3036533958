"""Write the answers of a batch to a file, a stream or a folder."""

import csv
import errno
import io
import json
import os
import re
import stat
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TextIO

from run_specialist.batch.answer_rows import (
    AnswerIndex,
    RowPosition,
    cells_at,
    columns_of,
    guarded_cell,
    index_of_csv,
    index_of_json,
    parse_row,
    row_line,
)
from run_specialist.batch.item import Done
from run_specialist.batch.questions import as_text, fields_of
from run_specialist.errors import UsageError
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.project import result_path
from run_specialist.store.location import default_folder
from run_specialist.store.rows import outcome_of

_OTHER_FORMATS = (".json", ".tsv", ".xlsx", ".xls", ".parquet")


class AnswerFile:
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
        try:
            self._target = result_path(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from None
        self._ordered = ordered
        self._is_csv = path.suffix.lower() == ".csv"
        self._check(items)
        try:
            self._part = AnswerPart(self._target.with_name(f"{self._target.name}.part"), path)
            self._recover()
        except OSError as error:
            raise self._unwritable(error) from None
        self._is_open = True
        self._earlier: dict[str, RowPosition] | None = None

    def _recover(self) -> None:
        """Check an existing file, and add the rows that a crashed call has left beside it."""
        try:
            if self._target.exists():
                self._index_of_target()
            if self._part.size:
                self._replace(keep_old=True)
                self._part.clear()
        except BaseException:
            if self._part.size:
                self._part.close()
            else:
                self._part.remove()
            raise

    def _check(self, items: Path | None) -> None:
        target, suffix = self._target, self.path.suffix.lower()
        if suffix in _OTHER_FORMATS:
            raise UsageError(f"{self.path}: answers are written as JSON Lines or CSV; use the suffix .jsonl or .csv")
        if target.is_dir():
            raise UsageError(f"{self.path} is a folder; name a file in it for the answers")
        if not target.parent.is_dir():
            raise UsageError(f"{self.path}: the folder {target.parent} does not exist; create it first")
        if target.exists() and not target.is_file():
            raise UsageError(f"{self.path} is not a regular file; write the answers to standard output instead")
        if items is not None and os.path.realpath(items) == str(target):
            raise UsageError(f"{self.path} is the file with the items; choose another file for the answers")

    @property
    def part(self) -> Path:
        """The file with the rows so far, as JSON Lines."""
        return self._part.path

    def write(self, done: Done) -> None:
        """Append the row of an item; raises UsageError if the disk is full."""
        try:
            self._part.append(row_line(done))
        except OSError as error:
            raise self._unwritable(error) from None

    def earlier(self, run_id: str) -> Outcome | None:
        """Return the outcome with an answer that the file has for a run; None for others, and in CSV files."""
        if self._earlier is None:
            has_json = not self._is_csv and self._target.exists()
            index = index_of_json(self._target, may_be_torn=True) if has_json else None
            self._earlier = {place.run_id: place for place in (index.places if index else ())}
        place = self._earlier.get(run_id)
        if place is None:
            return None
        with self._target.open("rb") as file:
            file.seek(place.start)
            row = parse_row(file.read(place.end - place.start))
        is_answer = row is not None and row["run_id"] == run_id and row["state"] in {"answered", "landed", "partial"}
        return outcome_of(row["outcome"]) if row is not None and is_answer else None

    def finish(self) -> None:
        """Replace the file by the rows of this call, because all items have one; raises UsageError."""
        self._end(whole=True)

    def __enter__(self) -> Self:
        return self

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
            if whole and self._part.size and not self._ordered and not self._is_csv:
                self._part.become(self._target, self._mode())
                return
            if self._part.size:
                self._replace(keep_old=not whole)
            self._part.remove()
        except BaseException as error:
            self._part.close()
            if not isinstance(error, OSError):
                raise
            raise self._unwritable(error, f"; the rows of this call are in {self._part.path}") from None

    def _index_of_target(self) -> AnswerIndex:
        if self._is_csv:
            return index_of_csv(self._target)
        return index_of_json(self._target, may_be_torn=False)

    def _replace(self, *, keep_old: bool) -> None:
        """Replace the file, in one step, by the new rows, after those of its own that they do not replace."""
        new = index_of_json(self._part.path, may_be_torn=True)
        places = [(new, place) for place in new.places]
        if keep_old and self._target.exists():
            old = self._index_of_target()
            places = [(old, place) for place in old.without(new)] + places
        if self._ordered:
            places.sort(key=lambda one: one[1].number)
        mode = self._mode()
        # Only the process that has locked the other file writes this one; a crash may have left it.
        new_file = self._target.with_name(f"{self._target.name}.new")
        new_file.unlink(missing_ok=True)
        try:
            with new_file.open("xb") as out:
                _write_rows(out, places, as_csv=self._is_csv)
                out.flush()
                os.fsync(out.fileno())
            if mode is not None:
                new_file.chmod(mode)
            new_file.replace(self._target)
        except BaseException:
            new_file.unlink(missing_ok=True)
            raise

    def _mode(self) -> int | None:
        return stat.S_IMODE(self._target.stat().st_mode) if self._target.exists() else None

    def _unwritable(self, error: OSError, note: str = "") -> UsageError:
        return UsageError(
            f"{self.path} cannot be written: {error.strerror or error}{note}; fix that, and repeat the call to write "
            "it again"
        )


def _write_rows(out: BinaryIO, places: list[tuple[AnswerIndex, RowPosition]], *, as_csv: bool) -> None:
    """Copy rows; for CSV they are converted, below a header with the columns of all of them."""
    rows = _read_rows(places)
    if not as_csv:
        out.writelines(data if data.endswith(b"\n") else data + b"\n" for _, data in rows)
        return
    columns = columns_of(index.columns for index in {id(index): index for index, _ in places}.values())
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="")
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    for index, data in rows:
        writer.writerow({column: guarded_cell(cell) for column, cell in cells_at(data, index).items()})
    text.detach()


def _read_rows(places: list[tuple[AnswerIndex, RowPosition]]) -> Iterator[tuple[AnswerIndex, bytes]]:
    files: dict[Path, BinaryIO] = {}
    try:
        for index, place in places:
            file = files.get(index.path) or files.setdefault(index.path, index.path.open("rb"))
            file.seek(place.start)
            yield index, file.read(place.end - place.start)
    finally:
        for file in files.values():
            file.close()


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


class AnswerPart:
    """An append-only file of rows, locked while it is open; a killed process leaves at most its last row incomplete."""

    def __init__(self, path: Path, of: Path) -> None:
        """Open or create the file and keep its rows; raises OSError, or UsageError if another process writes it.

        of: the file that it will replace, for the error.
        """
        self.path = path
        descriptor = None
        try:
            while descriptor is None:
                descriptor = _open_locked(path)
        except BlockingIOError:
            raise UsageError(
                f"{of} is being written by another process; wait for its end, or choose another file"
            ) from None
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        """Size [bytes]."""

    def append(self, line: bytes) -> None:
        """Append a whole line or nothing; raises OSError."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(line)

    def clear(self) -> None:
        """Remove all rows."""
        os.ftruncate(self._descriptor, 0)
        self.size = 0

    def become(self, target: Path, mode: int | None) -> None:
        """Replace a file by this one, and close this one; raises OSError.

        mode: permissions of the result; None to keep those of a new file.
        """
        if mode is not None:
            self.path.chmod(mode)
        os.fsync(self._descriptor)
        self.path.replace(target)
        os.close(self._descriptor)

    def remove(self) -> None:
        """Delete and close the file; raises OSError."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def close(self) -> None:
        """Close the file and keep its rows."""
        os.close(self._descriptor)


def _open_locked(path: Path) -> int | None:
    """Open or create a file and lock it; None if another process has just renamed or deleted it.

    Raises OSError; BlockingIOError if another process has the lock.
    """
    descriptor = os.open(path, _FLAGS, 0o666)
    try:
        _lock(descriptor)
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, f"{path} is not a regular file")  # noqa: TRY301 - the file is closed below
        with suppress(FileNotFoundError):
            if os.path.samestat(info, path.lstat()):
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


INDEX = "index.md"
_OWN = re.compile(r"(?:index|[0-9]{5,}-[a-z0-9-]+)\.md")
_LONGEST_SLUG = 40
_LONGEST_TITLE = 80
_MARKS = {True: "found in what was read", False: "not found in what was read", None: "not looked up"}
_TASK = (
    "Bring the answers together into one: what they have in common, where they differ or contradict each other, and "
    "what none of them could answer. Name the items that support each statement."
)


def folder_for(batch_id: str, *, is_stored: bool) -> Path:
    """Return the folder for the answers of a batch, which need not exist.

    is_stored: False if runs are not stored; it is then a new temporary folder, which the caller deletes.
    """
    if is_stored:
        return default_folder() / "batches" / batch_id / "answers"
    return Path(tempfile.mkdtemp(prefix=f"answers-{batch_id}-"))


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
        plain = unicodedata.normalize("NFKD", main[: 4 * _LONGEST_SLUG]).encode("ascii", "ignore").decode()
        slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:_LONGEST_SLUG].strip("-") or "item"
        name = f"{done.number:05d}-{slug}.md"
        text = "\n\n".join(part for part in _parts(done, title) if part)
        path = self.folder / name
        # A NUL would make it a binary file for the tools that search it.
        path.write_text(text.replace("\0", "\ufffd") + "\n", encoding="utf-8", errors="replace")
        self._lines[done.number] = f"- [{name}]({name}): {done.state}: {title}"
        self._states[done.state] += 1
        return path

    def finish(self, specialist: str, asked: str | None, task: str | None = None) -> str:
        """Write the index and return the question for the specialist that reads the folder; raises OSError.

        specialist: the name of the specialist that answered.
        asked: its question, as a template; None if each item was its own question.
        task: what to do with the answers; None to combine them into one.
        """
        total = len(self._lines)
        counts = ", ".join(f"{count} {state}" for state, count in self._states.most_common())
        about = f"The question about each item was:\n\n{_quoted(asked)}" if asked else "Each item was its own question."
        lines = "\n".join(self._lines[number] for number in sorted(self._lines))
        head = f"# {_plural(total, 'answer')} of the specialist {specialist}\n\n{counts or 'none'}\n\n{about}"
        (self.folder / INDEX).write_text(f"{head}\n\n{lines}\n", encoding="utf-8", errors="replace")
        return (
            f"The folder contains {_plural(total, 'answer')} of the specialist `{specialist}`, one file for each item "
            f"({counts or 'none'}). `{INDEX}` lists them; each file has the input, the answer and its quotes.\n\n"
            f"{about}\n\n{task or _TASK}"
        )


def _parts(done: Done, title: str) -> Iterator[str]:
    """Yield the parts of a file, in order; some are empty."""
    outcome = done.outcome
    yield f"# Item {done.number}: {title}"
    yield f"State: {done.state}" + (f"  \nRun: {done.run_id}" if done.run_id else "")
    given = done.input
    if isinstance(given, Mapping):
        given = "\n".join(f"- {name}: " + as_text(value).replace("\n", "\n  ") for name, value in given.items())
    else:
        given = given.strip()
    yield f"## Input\n\n{given}"
    if outcome is not None:
        yield f"## Answer\n\n{outcome.answer.strip() or '(none)'}"
        if outcome.evidence:
            yield "## Quotes\n\n" + "\n\n".join(
                f"{_quoted(one.quote)}\n>\n> {' '.join(one.source.split())} ({_MARKS[one.verified]})"
                for one in outcome.evidence
            )
        if outcome.gaps:
            yield "## Gaps\n\n" + "\n".join(f"- {' '.join(gap.split())}" for gap in outcome.gaps)
    if done.error:
        yield f"## Error\n\n{done.error}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or ">"


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


class AnswerStream:
    """Rows of answers as JSON Lines on a stream; used like an `AnswerFile`."""

    def __init__(self, stream: TextIO, *, ordered: bool = False) -> None:
        """Take the stream.

        ordered: write the rows in the order of the items; a row waits for those before it.
        """
        self._stream = stream
        self._ordered = ordered
        self._next = 1
        # Items that wait for those before them.
        self._held: dict[int, Done] = {}

    def write(self, done: Done) -> None:
        """Write the row of an item.

        Raises BrokenPipeError if the reader has closed the stream, UsageError if it cannot be written for another
        reason.
        """
        if not self._ordered:
            self._print([done])
            return
        self._held[done.number] = done
        ready = []
        while self._next in self._held:
            ready.append(self._held.pop(self._next))
            self._next += 1
        self._print(ready)

    def finish(self) -> None:
        """Write the rows that were held back; raises the same errors as `write`."""
        held, self._held = self._held, {}
        self._print([held[number] for number in sorted(held)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not isinstance(error, BrokenPipeError | UsageError):
            self.finish()

    def _print(self, ready: list[Done]) -> None:
        try:
            for done in ready:
                text = row_line(done).decode()
                try:
                    text.encode(self._stream.encoding or "utf-8")
                except UnicodeEncodeError:
                    text = json.dumps(json.loads(text)) + "\n"
                self._stream.write(text)
                self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(
                f"standard output cannot be written: {error.strerror or error}; repeat the call to continue"
            ) from None
