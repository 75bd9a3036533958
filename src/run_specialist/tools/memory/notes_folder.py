"""The folder with the notes of a specialist, opened without following symlinks and changed by one run at a time."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.safe_files.safe_open import Folder, folder
from run_specialist.safe_files.safe_write import (
    Changed,
    delete_file,
    digest_of,
    read_content,
    replace_file,
    temporary_name,
)
from run_specialist.tools.memory.folder_lock import locked
from run_specialist.tools.memory.note_names import MAIN, note_name

LARGEST = 64 * 1024
"""Maximum size of a note [bytes]."""
MOST = 100
"""Maximum number of notes."""
_MOST_ENTRIES = 1_000
"""Maximum number of folder entries that are examined."""
_GITIGNORE = ".gitignore"


@dataclass(frozen=True, slots=True)
class NotesFolder:
    """The folder with the notes of one specialist; it need not exist."""

    base: Path
    """A folder in which symlinks are followed."""
    folder: str
    """Path of the notes below `base`, with `/`; symlinks in it are not followed."""
    ignored: str = ""
    """Folder below `base` that gets a `.gitignore` when it is created; empty if there is none."""

    def read(self, note: str) -> tuple[str, bool]:
        """Return the text of a note, and whether it is longer than `LARGEST` and was cut.

        Raises OSError; FileNotFoundError if there is none.
        """
        above, _, name = f"{self.folder}/{note}".rpartition("/")
        with folder(self._root, above) as here, here.file(name) as file:
            data = file.read(LARGEST + 1)
        is_cut = len(data) > LARGEST
        return data[:LARGEST].decode("utf-8-sig", "ignore" if is_cut else "replace"), is_cut

    def notes(self) -> list[tuple[str, int]]:
        """Return the notes with their sizes [bytes], the one in the prompt first; raises OSError."""
        try:
            with folder(self._root, self.folder) as here:
                found = [*islice(_below(here, ""), MOST)]
        except FileNotFoundError:
            return []
        return sorted(found, key=lambda one: (one[0] != MAIN, one[0]))

    def change(self, note: str, change: Callable[[str | None], str | None], *, may_make: bool) -> str:
        """Replace a note by the result of a function, under the lock of the folder; return its text.

        change: takes the text, None if there is no such note; returns the new text, None to remove the note.
        may_make: whether to create a missing folder.
        Raises ToolError if the note is or would be too large, or if there are too many notes; OSError.
        """
        if may_make:
            self._make()
        path = f"{self.folder}/{note}"
        with folder(self._root, self.folder) as top, locked(top):
            found = read_content(self._root, path, LARGEST)
            expected = None if found is None else digest_of(found)
            after = change(None if found is None else _text(note, found))
            if after is None:
                delete_file(self._root, path, expected=expected or "", folders=note.count("/"), most=LARGEST)
                return ""
            data = after.encode("utf-8", "replace")
            if len(data) > LARGEST:
                raise ToolError(f"{note} would be larger than {LARGEST // 1024} KiB; use several notes, or shorten it")
            if found is None and sum(1 for _ in islice(_below(top, ""), MOST)) >= MOST:
                raise ToolError(f"there are {MOST} notes already; merge or delete some")
            self._write(path, data, expected)
        return after

    @property
    def _root(self) -> Path:
        return Path(os.path.realpath(self.base))

    def _write(self, path: str, data: bytes, expected: str | None) -> None:
        replace_file(self._root, path, data, expected=expected, temporary=temporary_name(), most=LARGEST)

    def _make(self) -> None:
        """Create the notes folder."""
        # Only the user may read the folder of the user; a project exists already.
        self.base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.ignored:
            with suppress(Changed):
                self._write(f"{self.ignored}/{_GITIGNORE}", b"*\n", None)
        above = ""
        for name in self.folder.split("/"):
            with folder(self._root, above) as here, suppress(FileExistsError):
                os.mkdir(name if here.descriptor is not None else f"{here.path}/{name}", dir_fd=here.descriptor)
            above = f"{above}/{name}" if above else name


def _text(note: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(f"{note} is not UTF-8, so it cannot be changed") from None


def _below(here: Folder, above: str) -> Iterator[tuple[str, int]]:
    """Yield the notes in a folder and below it, with their sizes; other files are omitted."""
    with here.listing() as entries:
        found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, _MOST_ENTRIES))
    for name, is_folder in found:
        path = f"{above}/{name}" if above else name
        with suppress(OSError, ToolError):
            if is_folder:
                note_name(f"{path}/x.md")
                inner = here.folder(name)
                try:
                    yield from _below(inner, path)
                finally:
                    inner.close()
            elif note_name(path) == path:
                with here.file(name) as file:
                    yield path, os.fstat(file.fileno()).st_size
