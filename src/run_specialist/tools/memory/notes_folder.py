"""The folder with the notes of a specialist, opened without following symlinks and changed by one run at a time."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.safe_open import Folder, names
from run_specialist.tools.memory.folder_lock import locked
from run_specialist.tools.memory.note_names import MAIN, note_name

LARGEST = 64 * 1024
"""Maximum size of a note [bytes]."""
MOST = 100
"""Maximum number of notes."""
_MOST_ENTRIES = 1_000
"""How many entries of a folder are looked at."""


@dataclass(frozen=True, slots=True)
class NotesFolder:
    """The folder with the notes of one specialist; it need not exist."""

    base: Path
    """A folder in which symlinks are followed."""
    folder: str
    """Path of the notes below it, with `/`, in which they are not."""
    ignored: str = ""
    """Folder below `base` for which git is told to ignore it, once it is made; empty if there is none."""

    def read(self, note: str) -> tuple[str, bool]:
        """Return the text of a note, and whether it is longer than `LARGEST` and was cut.

        Raises OSError; FileNotFoundError if there is none.
        """
        above, _, name = note.rpartition("/")
        with self._opened(above) as here:
            return _read(here, name)

    def notes(self) -> list[tuple[str, int]]:
        """Return the notes with their sizes [bytes], first that which is in the prompt; raises OSError."""
        try:
            with self._opened("") as here:
                found = [*islice(_below(here, ""), MOST)]
        except FileNotFoundError:
            return []
        return sorted(found, key=lambda one: (one[0] != MAIN, one[0]))

    def change(self, note: str, change: Callable[[str | None], str | None]) -> str:
        """Replace a note by what a function makes of it, while no other run changes these notes; return its text.

        change: gets the text, None if there is no such note, and returns the new one, None to remove the note.
        Raises ToolError for a note that is, or would be, too large, or one too many; OSError.
        """
        above, _, name = note.rpartition("/")
        self._make()
        with self._opened("") as top, locked(top), self._opened(above, make=True) as here:
            try:
                before, is_cut = _read(here, name)
            except FileNotFoundError:
                before, is_cut = None, False
            if is_cut:
                raise ToolError(f"{note} is larger than {LARGEST // 1024} KiB, so it cannot be changed")
            after = change(before)
            if after is None:
                here.remove(name)
                return ""
            data = after.encode("utf-8", "replace")
            if len(data) > LARGEST:
                raise ToolError(f"{note} would be larger than {LARGEST // 1024} KiB; use several notes, or shorten it")
            if before is None and sum(1 for _ in islice(_below(top, ""), MOST)) >= MOST:
                raise ToolError(f"there are {MOST} notes already; merge or delete some")
            _write(here, name, data)
            return after

    @contextmanager
    def _opened(self, above: str, *, make: bool = False) -> Iterator[Folder]:
        """Hold the folder of the notes open, or one below it.

        make: whether folders below that of the notes are made.
        """
        here = Folder.at(Path(os.path.realpath(self.base)))
        try:
            for parts, may_make in ((names(self.folder), False), (names(above), make)):
                for part in parts:
                    here = _entered(here, part, make=may_make)
            yield here
        finally:
            here.close()

    def _make(self) -> None:
        """Make the folder of the notes."""
        # That of the user is for nobody else; a project exists already.
        self.base.mkdir(mode=0o700, parents=True, exist_ok=True)
        here = Folder.at(Path(os.path.realpath(self.base)))
        try:
            above = ""
            for part in names(self.folder):
                here = _entered(here, part, make=True)
                above = f"{above}/{part}" if above else part
                if above == self.ignored:
                    with suppress(FileExistsError), here.create(".gitignore", overwrite=False) as file:
                        file.write(b"*\n")
        finally:
            here.close()


def _entered(here: Folder, name: str, *, make: bool) -> Folder:
    """Return a subfolder in place of its folder, which is closed; raises OSError, with `here` still open."""
    if make:
        here.make_folder(name)
    inner = here.folder(name)
    here.close()
    return inner


def _read(here: Folder, name: str) -> tuple[str, bool]:
    with here.file(name) as file:
        data = file.read(LARGEST + 1)
    is_cut = len(data) > LARGEST
    return data[:LARGEST].decode("utf-8-sig", "ignore" if is_cut else "replace"), is_cut


def _below(here: Folder, above: str) -> Iterator[tuple[str, int]]:
    """Yield the notes in a folder and below it, with their sizes; everything else is left out."""
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


def _write(here: Folder, name: str, data: bytes) -> None:
    """Write a file so that readers see the old text or the new one, whatever happens."""
    temporary = f".{secrets.token_hex(8)}.tmp"
    try:
        with here.create(temporary, overwrite=False) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        here.move(temporary, name)
    except OSError:
        with suppress(OSError):
            here.remove(temporary)
        raise
