"""How what was found looks to a model."""

import os
from collections.abc import Iterable, Iterator, Sequence

from run_specialist.errors import ToolError
from run_specialist.tools.index import Hit
from run_specialist.tools.listing import Entry, entries
from run_specialist.tools.sandbox import Sandbox, shown
from run_specialist.tools.text import clip, count_on, text_lines

_KILO = 1024


def hit_lines(hits: Sequence[Hit]) -> Iterator[str]:
    """Yield the lines of each passage below its heading, with an empty line between passages."""
    for position, hit in enumerate(hits):
        if position:
            yield ""
        for piece in (*hit.passage.headings[-1:], *hit.passage.pieces):
            text = piece.text if piece.whole else f"… {piece.text.strip()} …"
            yield f"{shown(hit.path)}:{piece.line}: {text}"


def numbered(lines: Iterable[tuple[str, int]], first: int, *, alone: bool) -> Iterator[str]:
    """Yield lines with their numbers; one that is read alone is not clipped."""
    for number, (line, length) in enumerate(lines, first):
        yield f"{number:>6}\t{line if alone else clip(line, length)}"


def describe(sandbox: Sandbox, entry: Entry) -> str:
    """Word one line of a folder's listing."""
    name = shown(entry.name)
    if entry.kind == "folder":
        return f"{name}/  {_entry_count(sandbox, entry.relative)}"
    if entry.kind == "link":
        return f"{name} -> {_target(sandbox, entry.relative)}"
    if entry.kind == "special":
        return f"{name}  (no regular file; cannot be read)"
    size = os.lstat(sandbox.root / entry.relative).st_size
    try:
        with text_lines(sandbox, entry.relative) as lines:
            count = f"{count_on(lines, 0, size)} lines"
    except ToolError as error:
        count = "binary" if "binary" in str(error) else "unreadable"
    return f"{name}  {_in_words(size)}  {count}"


def _entry_count(sandbox: Sandbox, relative: str) -> str:
    try:
        return f"{len(entries(sandbox, relative))} entries"
    except OSError:
        return "unreadable"


def _target(sandbox: Sandbox, relative: str) -> str:
    try:
        return shown(sandbox.locate(relative)) or "."
    except ToolError:
        return "(leads to what you may not read)"


def _in_words(size: int) -> str:
    if size < _KILO:
        return f"{size} B"
    return f"{size / _KILO:.1f} KB" if size < _KILO**2 else f"{size / _KILO**2:.1f} MB"
