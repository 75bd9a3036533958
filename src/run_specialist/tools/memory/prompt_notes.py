"""The notes that are added to a specialist's prompt when a run begins."""

from dataclasses import dataclass

from run_specialist.tools.memory.note_names import MAIN
from run_specialist.tools.memory.note_text import plain
from run_specialist.tools.memory.notes_folder import NotesFolder

MOST_LINES = 200
"""Maximum number of lines of `MEMORY.md` that are added; the same as in Claude Code."""
MOST_BYTES = 25 * 1024
"""Maximum size of the added part of `MEMORY.md` [bytes]; the same as in Claude Code."""


@dataclass(frozen=True, slots=True)
class PromptNotes:
    """The notes that a run begins with."""

    text: str = ""
    problem: str = ""
    """Why some or all of the notes are missing."""


def read_notes(folder: NotesFolder) -> PromptNotes:
    """Read the beginning of `MEMORY.md`, which need not exist."""
    try:
        text = plain(folder.read(MAIN)[0])
    except FileNotFoundError:
        return PromptNotes()
    except OSError as error:
        return PromptNotes(problem=f"{MAIN} is not read: {error.strerror or error}")
    lines = text.splitlines(keepends=True)
    kept = "".join(lines[:MOST_LINES])
    if len(kept.encode("utf-8", "replace")) > MOST_BYTES:
        kept = kept.encode("utf-8", "replace")[:MOST_BYTES].decode("utf-8", "ignore")
    if len(kept) == len(text):
        return PromptNotes(text.strip())
    cut = f"{MAIN} is cut after {min(MOST_LINES, kept.count(chr(10)) + 1)} lines"
    return PromptNotes(f"{kept.strip()}\n[{cut}]", cut)
