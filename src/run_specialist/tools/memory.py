"""The tool `memory`, and the folder with the notes that a specialist keeps from run to run.

Its commands have the names and arguments of the Messages API's memory tool, which models know, plus `append`.
"""

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.safety import safe_files
from run_specialist.safety.safe_files import Folder, folder
from run_specialist.specialist.tool_names import MEMORY
from run_specialist.tools.base import Tool
from run_specialist.tools.sandbox import fit

MAIN = "MEMORY.md"
"""The note that is added to the prompt."""
_PART = re.compile(r"[^\W_](?:[\w .-]{0,62}\w)?")
_DEEPEST = 3
# Prefix of paths from models that know the Messages API's memory tool.
_ROOT = re.compile(r"(?:\./)?/?(?:memories(?:/|$))?")
_READ_BY_PROGRAMS = frozenset(
    {"agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "skill.md"}
    | {"copilot-instructions.md", "warp.md", "crush.md", "qwen.md"}
)


def note_name(path: str) -> str:
    """Return the path of a note below the notes folder, with `/`; empty for the folder itself.

    Raises ToolError for anything except a Markdown file there.
    """
    name = _ROOT.sub("", path.strip(), count=1).rstrip("/")
    if not name:
        return ""
    parts = name.split("/")
    shown = repr(path if len(path) <= 100 else f"{path[:97]}...")  # noqa: PLR2004 - for a message
    if not all(map(_PART.fullmatch, parts)) or len(parts) > _DEEPEST:
        raise ToolError(f"{shown} is no name of a note; use a name such as {MAIN} or topics/tests.md")
    last = parts[-1].lower()
    if not last.endswith(".md"):
        raise ToolError(f"{shown} is no name of a note: notes are Markdown files, whose names end in .md")
    if last in _READ_BY_PROGRAMS or last.endswith((".agent.md", ".instructions.md", ".prompt.md", ".chatmode.md")):
        raise ToolError(f"{shown} is a name that other programs read by themselves; use another one")
    return name


LARGEST = 64 * 1024
"""Maximum size of a note [bytes]."""
MOST = 100
"""Maximum number of notes."""


@dataclass(frozen=True, slots=True)
class NotesFolder:
    """The folder with the notes of one specialist; it need not exist."""

    base: Path
    """A folder in which symlinks are followed."""
    folder: str
    """Path of the notes below `base`, with `/`; symlinks in it are not followed."""
    ignored: str = ""
    """Folder below `base` that gets a `.gitignore` when it is created; empty if there is none."""
    is_in_project: bool = True
    """Whether `base` is the project, and not a folder of the user."""

    @property
    def shown(self) -> str:
        """The folder as shown to people and models: relative to the project, or its absolute path."""
        return self.folder if self.is_in_project else str(self.base / self.folder)

    def read(self, note: str) -> tuple[str, bool]:
        """Return the text of a note, and whether it is longer than `LARGEST` and was cut.

        Raises OSError; FileNotFoundError if there is none.
        """
        with safe_files.place(self._root, f"{self.folder}/{note}") as (here, name), here.file(name) as file:
            data = file.read(LARGEST + 1)
        is_cut = len(data) > LARGEST
        return data[:LARGEST].decode("utf-8-sig", "ignore" if is_cut else "replace"), is_cut

    def notes(self) -> list[tuple[str, int]]:
        """Return the notes with their sizes [bytes], the one in the prompt first; raises OSError."""
        with suppress(FileNotFoundError), folder(self._root, self.folder) as here:
            return sorted(islice(_below(here, ""), MOST), key=lambda one: (one[0] != MAIN, one[0]))
        return []

    def change(self, note: str, change: Callable[[str | None], str | None], *, may_make: bool) -> str:
        """Replace a note by the result of a function, under the lock of the folder; return its text.

        change: takes the text, None if there is no such note; returns the new text, None to remove the note.
        may_make: whether to create a missing folder.
        Raises ToolError if the note is or would be too large, or if there are too many notes; OSError.
        """
        if may_make:
            # Only the user may read the folder of the user; a project exists already.
            self.base.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.ignored:
                with suppress(safe_files.Changed):
                    safe_files.replace_file(self._root, f"{self.ignored}/.gitignore", b"*\n", expected=None)
            safe_files.make_folders(self._root, self.folder)
        path = f"{self.folder}/{note}"
        with folder(self._root, self.folder) as top, locked(top):
            found = safe_files.read_content(self._root, path, LARGEST)
            expected = None if found is None else safe_files.digest_of(found)
            try:
                before = None if found is None else found.decode("utf-8-sig")
            except UnicodeDecodeError:
                raise ToolError(f"{note} is not UTF-8, so it cannot be changed") from None
            after = change(before)
            if after is None:
                safe_files.unlink_file(self._root, path, expected or "", folders=note.count("/"))
                return ""
            data = after.encode("utf-8", "replace")
            if len(data) > LARGEST:
                raise ToolError(f"{note} would be larger than {LARGEST // 1024} KiB; use several notes, or shorten it")
            if found is None and sum(1 for _ in islice(_below(top, ""), MOST)) >= MOST:
                raise ToolError(f"there are {MOST} notes already; merge or delete some")
            safe_files.replace_file(self._root, path, data, expected=expected)
        return after

    @property
    def _root(self) -> Path:
        return Path(os.path.realpath(self.base))


def _below(here: Folder, above: str) -> Iterator[tuple[str, int]]:
    """Yield the notes in a folder and below it, with their sizes; other files are omitted."""
    with here.listing() as entries:
        found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, 1_000))
    for name, is_folder in found:
        path = f"{above}/{name}" if above else name
        with suppress(OSError, ToolError):
            if is_folder:
                note_name(f"{path}/x.md")
                with closing(here.folder(name)) as inner:
                    yield from _below(inner, path)
            elif note_name(path) == path:
                with here.file(name) as file:
                    yield path, os.fstat(file.fileno()).st_size


LONGEST = 10.0
"""Maximum time to wait for another run [s]."""


@contextmanager
def locked(folder: Folder, seconds: float = LONGEST) -> Iterator[None]:
    """Hold the lock of a folder, which the operating system releases when the process ends.

    seconds: maximum time to wait.
    Raises ToolError if another run holds it for longer.
    """
    end = time.monotonic() + seconds
    # A descriptor that can be locked.
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.descriptor)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise ToolError("another run is changing these notes; try again") from None
                time.sleep(0.005)
                continue
            except OSError:
                pass  # some network file systems cannot lock folders; there a note changed meanwhile is an error
            break
        yield
    finally:
        os.close(descriptor)


def plain(text: str) -> str:
    """Return a text without control characters and lone surrogates, with Unix line ends."""
    unix = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode("utf-8")
    return unix.translate(_UNREADABLE)


MOST_LINES = 200
"""Maximum number of lines of `MEMORY.md` that are added; the same as in Claude Code."""
# Maximum size of the added part of `MEMORY.md` [bytes]; the same as in Claude Code.
_MOST_BYTES = 25 * 1024


def read_notes(folder: NotesFolder) -> tuple[str, str]:
    """Return the beginning of `MEMORY.md`, which need not exist, and why some or all of it is missing."""
    try:
        text = plain(folder.read(MAIN)[0])
    except FileNotFoundError:
        return "", ""
    except OSError as error:
        return "", f"{MAIN} is not read: {error.strerror or error}"
    kept = "".join(text.splitlines(keepends=True)[:MOST_LINES]).encode("utf-8", "replace")[:_MOST_BYTES]
    shown = kept.decode("utf-8", "ignore")
    if len(shown) == len(text):
        return text.strip(), ""
    cut = f"{MAIN} is cut after {min(MOST_LINES, shown.count(chr(10)) + 1)} lines"
    return f"{shown.strip()}\n[{cut}]", cut


_DESCRIPTION = (
    f"Your notes, which stay from run to run. {MAIN} is in your prompt when a run begins, up to {MOST_LINES} lines: "
    "keep it short, and put details into other notes, such as tests.md, that it names. Other runs may write at the "
    "same time, so prefer append. Write what you have found out, with its place, and never secrets."
)
# Control characters that a note does not need.
_UNREADABLE = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))


def memory_tool(folder: NotesFolder, hide: Callable[[str], str], result_limit: int, *, is_dry: bool = False) -> Tool:
    """Return the tool of one run.

    hide: masks secrets in written notes.
    result_limit: maximum length of one result [characters].
    is_dry: whether no file may be changed.
    """
    return Tool(MEMORY, _DESCRIPTION, _MemoryNotes(folder, hide, result_limit, is_dry).memory)


@dataclass(frozen=True, slots=True)
class _MemoryNotes:
    """The notes as known to one run; thread-safe, because the folder is locked for each change."""

    folder: NotesFolder
    hide: Callable[[str], str]
    limit: int
    is_dry: bool
    # The notes as this run last read or wrote them.
    seen: dict[str, str] = field(default_factory=dict)

    def memory(  # noqa: PLR0913, PLR0917 - chosen by a model, always by keyword
        self,
        command: Annotated[
            Literal["view", "create", "append", "str_replace", "delete"],
            Field(description="create is for a new note; delete needs that you have viewed it in this run."),
        ],
        path: Annotated[str, Field(description="A note; empty to view the list of all notes.")] = "",
        file_text: Annotated[str, Field(description="What to create or append.")] = "",
        old_str: Annotated[str, Field(description="What to replace; it must be there exactly once.")] = "",
        new_str: Annotated[str, Field(description="What to put in its place.")] = "",
        offset: Annotated[int, Field(ge=1, description="The first line to view, from 1.")] = 1,
    ) -> str:
        """View or change the notes."""
        note = note_name(path)
        try:
            if command == "view":
                return self._view(note, offset)
            if self.is_dry:
                raise ToolError("this is a dry run, which changes no notes; go on without")
            if not note:
                raise ToolError(f"path: name a note, such as {MAIN}")
            return self._change(command, note, old_str, new_str if command == "str_replace" else file_text)
        except FileNotFoundError:
            raise ToolError(f"there is no note {note}; view without a path lists those that there are") from None
        except OSError as error:
            raise ToolError(f"{note or 'the notes'} cannot be used: {error.strerror or error}") from None

    def _view(self, note: str, offset: int) -> str:
        if not note:
            listed = [f"{name}  {size:,} bytes" for name, size in self.folder.notes()]
            return fit(listed, self.limit, lambda _: "") if listed else "There are no notes yet."
        text, is_cut = self.folder.read(note)
        self.seen[note] = text
        lines = text.splitlines()
        chosen = lines[offset - 1 :]
        if not chosen and lines:
            raise ToolError(f"{note} ends before line {offset}; it has {len(lines)} lines")

        def on(taken: int) -> str:
            if not lines:
                return f"[{note} is empty]"
            last = offset + taken - 1
            more = f"; view on with offset={last + 1}" if last < len(lines) else ""
            cut = f"; the rest beyond {LARGEST // 1024} KiB cannot be viewed" if is_cut else ""
            return f"[{note}: lines {offset}-{last} of {len(lines)}{more}{cut}]"

        return fit(chosen, self.limit, on)

    def _change(self, command: str, note: str, old: str, given: str) -> str:
        text = self.hide(plain(given))
        is_added = command in {"create", "append"}
        if is_added and not text.strip():
            raise ToolError("file_text: there is nothing to write")

        def change(before: str | None) -> str | None:
            is_seen = before is None or self.seen.get(note) == before
            if command == "create" and before is not None:
                raise ToolError(
                    f"there is a note {note} already; view it, then append, or replace a part of it by str_replace"
                )
            if is_added:
                gap = "\n" if before and not before.endswith("\n") else ""
                after = f"{before or ''}{gap}{text}{'' if text.endswith(chr(10)) else chr(10)}"
            elif before is None:
                raise FileNotFoundError
            elif command == "delete":
                if not is_seen:
                    why = "has changed since you viewed it" if note in self.seen else "was not viewed in this run"
                    raise ToolError(f"{note} {why}; view it, then delete it if nothing in it is needed")
                return None
            else:
                if (count := before.count(old) if old else 0) != 1:
                    found = "is not there" if count == 0 else f"is there {count} times"
                    raise ToolError(f"old_str {found} in {note}; it must be there exactly once, so view the note first")
                after = before.replace(old, text)
            if is_seen:
                self.seen[note] = after
            return after

        left = self.folder.change(note, change, may_make=is_added)
        if command == "delete":
            return f"Deleted {note}."
        done = {"create": "Created", "append": "Appended to"}.get(command, "Changed")
        parts = [f"{done} {note}."]
        if text != plain(given):
            parts.append("Secrets in it were masked.")
        if note == MAIN and (left.count("\n") > MOST_LINES or len(left.encode()) > _MOST_BYTES):
            parts.append(
                f"Only its first {MOST_LINES} lines, or {_MOST_BYTES // 1024} KiB, are in your prompt when a run "
                "begins: move details into other notes."
            )
        return " ".join(parts)
