"""Read the text of files in a sandbox, and keep what is shown within its limit."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from run_specialist.errors import ToolError
from run_specialist.redaction import lines_without_keys, redact
from run_specialist.tools.sandbox.linescan import HEAD, encoding_of, lines_of
from run_specialist.tools.sandbox.sandbox import Sandbox, shown

CLIP = 500
"""Lines longer than this are clipped where several are shown [characters]."""
SECONDS = 20.0
"""How long one file may be read at a time."""
_AT_A_TIME = 65_536
_SLACK = 40
_COUNTED = 10_000_000


@dataclass(frozen=True, slots=True)
class Text:
    """A text file that is open."""

    lines: Iterator[tuple[str, int]]
    """One by one, each with its whole length."""
    size: int
    """Of the file [bytes]."""


def is_text(sandbox: Sandbox, relative: str) -> bool:
    """Tell whether a file can be read and looks like text."""
    try:
        with sandbox.open(relative) as file:
            return encoding_of(file.read(HEAD) or b"") is not None
    except OSError:
        return False


@contextmanager
def text_lines(sandbox: Sandbox, relative: str) -> Iterator[Text]:
    """Open a text file and give its lines.

    Raises ToolError when the file cannot be read or is no text.
    """
    try:
        with sandbox.open(relative) as file:
            encoding = encoding_of(file.read(HEAD) or b"")
            if encoding is None:
                raise ToolError(f"{shown(relative)} is a binary file; only text can be read")
            file.seek(0)
            lines = lines_of(file, encoding, time.monotonic() + SECONDS)
            yield Text(_hidden(lines), os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise ToolError(f"{shown(relative)} cannot be read: {error.strerror or error}") from error


def _hidden(lines: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Mask what a result may show only a part of: the body of a private key, and secrets in long lines."""
    for line, length in lines_without_keys(lines):
        if length > CLIP:
            hidden = redact(line)
            yield hidden, length - len(line) + len(hidden)
        else:
            yield line, length


def whole_text(sandbox: Sandbox, relative: str, most: int) -> tuple[str, int] | None:
    """Return a whole text file and its size [bytes]; None when that is more than `most`.

    Raises ToolError when the file cannot be read or is no text.
    """
    try:
        with sandbox.open(relative) as file:
            content = bytearray(file.read(HEAD) or b"")
            encoding = encoding_of(content)
            if encoding is None:
                raise ToolError(f"{shown(relative)} is a binary file; only text can be read")
            # Not what the system says of its size: it may grow meanwhile, and some say nothing.
            while len(content) <= most and (more := file.read(_AT_A_TIME)):
                content += more
    except OSError as error:
        raise ToolError(f"{shown(relative)} cannot be read: {error.strerror or error}") from error
    if len(content) > most:
        return None
    lines = content.decode(encoding, "replace").split("\n")
    return "\n".join(line for line, _ in _hidden((line, len(line)) for line in lines)), len(content)


def count_on(text: Text, read: int) -> int | str:
    """Count the lines of a file of which some were read; a large one is not read to its end for that."""
    if text.size <= _COUNTED:
        return read + sum(1 for _ in text.lines)
    return read if next(text.lines, None) is None else "many"


def clip(line: str, length: int, start: int = 0) -> str:
    """Cut a line that is too long to be shown among others, and say so.

    length: of the whole line [characters].
    start: the first character that must be seen.
    """
    if length <= CLIP:
        return line
    begin = max(0, min(start, len(line)) - CLIP // 4)
    mark = "… " if begin else ""
    return f"{mark}{line[begin : begin + CLIP]} … [clipped: {length} characters; read it alone with limit=1]"


def fit(lines: Iterable[str], limit: int, note: Callable[[int], str]) -> str:
    """Join as many lines as fit, and end with a note.

    limit: of the whole [characters].
    note: given the number of lines taken, words what was left out; empty for nothing to say.
    """
    room = max(limit - len(note(0)) - _SLACK, limit // 2)
    taken: list[str] = []
    for line in lines:
        if len(line) + 1 > room:
            if not taken:
                taken.append(line[: max(0, room)])
            break
        room -= len(line) + 1
        taken.append(line)
    parts = ("\n".join(taken), note(len(taken)))
    return "\n".join(part for part in parts if part)[:limit]
