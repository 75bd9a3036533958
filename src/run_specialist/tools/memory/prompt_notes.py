"""The notes that are added to a specialist's prompt when a run begins."""

from dataclasses import dataclass

from run_specialist.tools.memory.note_names import MAIN
from run_specialist.tools.memory.note_text import plain
from run_specialist.tools.memory.notes_folder import NotesFolder

MOST_LINES = 200
"""How many lines of `MEMORY.md` are added; Claude Code has the same."""
MOST_BYTES = 25 * 1024
"""How much of `MEMORY.md` is added [bytes]; Claude Code has the same."""


@dataclass(frozen=True, slots=True)
class PromptNotes:
    """The notes that a run begins with."""

    text: str = ""
    problem: str = ""
    """Why a part, or all, is missing."""


def read_notes(folder: NotesFolder) -> PromptNotes:
    """Read the beginning of `MEMORY.md`; there need not be any."""
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
