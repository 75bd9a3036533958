"""Write the answers of a batch, a row as soon as an item ends."""

import csv
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from run_specialist.batch.answers.answer_cells import columns_of, guarded_cell
from run_specialist.batch.answers.answer_index import AnswerIndex, RowPosition, cells_at, index_of_csv, index_of_json
from run_specialist.batch.answers.answer_part import AnswerPart
from run_specialist.batch.answers.answer_rows import parse_row, row_line
from run_specialist.batch.done import Done
from run_specialist.errors import UsageError
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.project import result_path
from run_specialist.store.from_rows import outcome_of

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
            index = index_of_json(self._target, may_be_torn=True) if self._has_json else None
            self._earlier = {place.run_id: place for place in (index.places if index else ())}
        place = self._earlier.get(run_id)
        if place is None:
            return None
        with self._target.open("rb") as file:
            file.seek(place.start)
            row = parse_row(file.read(place.end - place.start))
        is_answer = row is not None and row["run_id"] == run_id and row["state"] in {"answered", "landed", "partial"}
        return outcome_of(row["outcome"]) if row is not None and is_answer else None

    @property
    def _has_json(self) -> bool:
        return not self._is_csv and self._target.exists()

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
