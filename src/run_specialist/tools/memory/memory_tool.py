"""The tool `memory`: the notes that a specialist keeps from run to run.

Its commands have the names and arguments of the Messages API's memory tool, which models know, plus `append`.
"""

import hashlib
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.tools.base import Tool
from run_specialist.tools.memory.note_names import MAIN, note_name
from run_specialist.tools.memory.note_text import plain
from run_specialist.tools.memory.notes_folder import LARGEST, NotesFolder
from run_specialist.tools.memory.prompt_notes import MOST_BYTES, MOST_LINES
from run_specialist.tools.sandbox.text import fit

NAME = "memory"

_DESCRIPTION = (
    f"Your notes, which stay from run to run. {MAIN} is in your prompt when a run begins, up to {MOST_LINES} lines: "
    "keep it short, and put details into other notes, such as tests.md, that it names. Other runs may write at the "
    "same time, so prefer append. Write what you have found out, with its place, and never secrets."
)
_UNREADABLE = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))
"""Control characters that a note does not need."""


def memory_tool(folder: NotesFolder, hide: Callable[[str], str], result_limit: int, *, is_dry: bool = False) -> Tool:
    """Return the tool of one run.

    hide: masks secrets in written notes.
    result_limit: maximum length of one result [characters].
    is_dry: whether no file may be changed.
    """
    return Tool(NAME, _DESCRIPTION, _MemoryNotes(folder, hide, result_limit, is_dry=is_dry).memory)


class _MemoryNotes:
    """The notes as known to one run; thread-safe, because the folder is locked for each change."""

    def __init__(self, folder: NotesFolder, hide: Callable[[str], str], result_limit: int, *, is_dry: bool) -> None:
        self._folder = folder
        self._is_dry = is_dry
        self._hide = hide
        self._limit = result_limit
        self._seen: dict[str, str] = {}
        """Digests of the notes as this run last read or wrote them."""

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
                return self._view(note, offset) if note else self._list()
            if self._is_dry:
                raise ToolError("this is a dry run, which changes no notes; go on without")
            if not note:
                raise ToolError(f"path: name a note, such as {MAIN}")
            match command:
                case "create":
                    return self._add(note, file_text, "Created", is_new=True)
                case "append":
                    return self._add(note, file_text, "Appended to", is_new=False)
                case "str_replace":
                    return self._replace(note, old_str, new_str)
                case "delete":
                    return self._delete(note)
        except FileNotFoundError:
            raise ToolError(f"there is no note {note}; view without a path lists those that there are") from None
        except OSError as error:
            raise ToolError(f"{note or 'the notes'} cannot be used: {error.strerror or error}") from None

    def _list(self) -> str:
        notes = self._folder.notes()
        if not notes:
            return "There are no notes yet."
        return fit((f"{name}  {size:,} bytes" for name, size in notes), self._limit, lambda _: "")

    def _view(self, note: str, offset: int) -> str:
        text, is_cut = self._folder.read(note)
        self._seen[note] = _digest(text)
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

        return fit(chosen, self._limit, on)

    def _add(self, note: str, given: str, done: str, *, is_new: bool) -> str:
        text = self._clean(given)
        if not text.strip():
            raise ToolError("file_text: there is nothing to write")

        def add(before: str | None) -> str:
            if before is not None and is_new:
                raise ToolError(
                    f"there is a note {note} already; view it, then append, or replace a part of it by str_replace"
                )
            gap = "\n" if before and not before.endswith("\n") else ""
            return self._left(note, before, f"{before or ''}{gap}{text}{'' if text.endswith(chr(10)) else chr(10)}")

        left = self._folder.change(note, add, may_make=True)
        return _said(note, left, done, is_masked=text != plain(given))

    def _replace(self, note: str, old: str, given: str) -> str:
        text = self._clean(given)

        def replace(before: str | None) -> str:
            if before is None:
                raise FileNotFoundError
            if (count := before.count(old) if old else 0) != 1:
                found = "is not there" if count == 0 else f"is there {count} times"
                raise ToolError(f"old_str {found} in {note}; it must be there exactly once, so view the note first")
            return self._left(note, before, before.replace(old, text))

        left = self._folder.change(note, replace, may_make=False)
        return _said(note, left, "Changed", is_masked=text != plain(given))

    def _delete(self, note: str) -> str:
        def delete(before: str | None) -> None:
            if before is None:
                raise FileNotFoundError
            if self._seen.get(note) != _digest(before):
                why = "has changed since you viewed it" if note in self._seen else "was not viewed in this run"
                raise ToolError(f"{note} {why}; view it, then delete it if nothing in it is needed")

        self._folder.change(note, delete, may_make=False)
        return f"Deleted {note}."

    def _clean(self, text: str) -> str:
        return self._hide(plain(text))

    def _left(self, note: str, before: str | None, text: str) -> str:
        """Record a note as this run leaves it, unless it contains something that this run has not seen."""
        if before is None or self._seen.get(note) == _digest(before):
            self._seen[note] = _digest(text)
        return text


def _said(note: str, left: str, done: str, *, is_masked: bool) -> str:
    """Return the result of a change.

    left: the note after the change.
    """
    parts = [f"{done} {note}."]
    if is_masked:
        parts.append("Secrets in it were masked.")
    if note == MAIN and (left.count("\n") > MOST_LINES or len(left.encode()) > MOST_BYTES):
        parts.append(
            f"Only its first {MOST_LINES} lines, or {MOST_BYTES // 1024} KiB, are in your prompt when a run begins: "
            "move details into other notes."
        )
    return " ".join(parts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
