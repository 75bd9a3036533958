"""Text reading in a sandbox, and output limits."""

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from run_specialist.errors import ToolError
from run_specialist.redaction import lines_without_keys, redact
from run_specialist.tools.sandbox.linescan import DETECTION_SIZE, encoding_of, lines_of
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path

CLIP = 500
"""Maximum length of a line shown among others; longer ones are clipped [characters]."""
TIMEOUT = 20.0
"""Timeout for reading one file [s]."""
_CHUNK = 65_536
_NOTE_MARGIN = 40
_MAX_COUNTED = 10_000_000


@dataclass(frozen=True, slots=True)
class Text:
    """An open text file."""

    lines: Iterator[tuple[str, int]]
    """Lines, each with its original length [characters]."""
    size: int
    """Size of the file [bytes]."""


def is_text(sandbox: Sandbox, relative: str) -> bool:
    """Return whether a file can be read and looks like text."""
    try:
        with sandbox.open(relative) as file:
            return encoding_of(file.read(DETECTION_SIZE) or b"") is not None
    except OSError:
        return False


@contextmanager
def text_lines(sandbox: Sandbox, relative: str, content: bytes | None = None) -> Iterator[Text]:
    """Open a text file and return its lines.

    content: its content if that is known already.
    Raises ToolError if the file cannot be read or is not text.
    """
    try:
        with sandbox.open(relative) if content is None else io.BytesIO(content) as file:
            encoding = encoding_of(file.read(DETECTION_SIZE) or b"")
            if encoding is None:
                raise ToolError(f"{escape_path(relative)} is a binary file; only text can be read")
            file.seek(0)
            lines = lines_of(file, encoding, time.monotonic() + TIMEOUT)
            yield Text(_masked(lines), os.fstat(file.fileno()).st_size if content is None else len(content))
    except OSError as error:
        raise ToolError(f"{escape_path(relative)} cannot be read: {error.strerror or error}") from error


def _masked(lines: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Mask secrets of which a result might show an unrecognizable part: private keys, and secrets in long lines."""
    for line, length in lines_without_keys(lines):
        if length > CLIP:
            masked = redact(line)
            yield masked, length - len(line) + len(masked)
        else:
            yield line, length


def read_text(sandbox: Sandbox, relative: str, most: int) -> tuple[str, int] | None:
    """Return the text of a file and its size [bytes]; None if the size exceeds `most`.

    Raises ToolError if the file cannot be read or is not text.
    """
    try:
        with sandbox.open(relative) as file:
            content = bytearray(file.read(DETECTION_SIZE) or b"")
            encoding = encoding_of(content)
            if encoding is None:
                raise ToolError(f"{escape_path(relative)} is a binary file; only text can be read")
            # Read to the end, since the reported size may be outdated, or 0 for virtual files.
            while len(content) <= most and (chunk := file.read(_CHUNK)):
                content += chunk
    except OSError as error:
        raise ToolError(f"{escape_path(relative)} cannot be read: {error.strerror or error}") from error
    if len(content) > most:
        return None
    lines = content.decode(encoding, "replace").split("\n")
    return "\n".join(line for line, _ in _masked((line, len(line)) for line in lines)), len(content)


def count_lines(text: Text, read: int) -> int | str:
    """Return the number of lines of a partly read file; `many` for a large file, which is not read to its end."""
    if text.size <= _MAX_COUNTED:
        return read + sum(1 for _ in text.lines)
    return read if next(text.lines, None) is None else "many"


def clip(line: str, length: int, start: int = 0, *, most: int = CLIP) -> str:
    """Clip a line that is too long to be shown among others, with a note.

    length: original length of the line [characters].
    start: first character that must be visible.
    most: maximum length without the note, at least CLIP, because shorter lines are not masked [characters].
    """
    if length <= most:
        return line
    begin = max(0, min(start, len(line)) - most // 4)
    mark = "… " if begin else ""
    return f"{mark}{line[begin : begin + most]} … [clipped: {length} characters; read it alone with limit=1]"


def fit(lines: Iterable[str], limit: int, note: Callable[[int], str]) -> str:
    """Join as many lines as fit within a limit, and append a note.

    limit: maximum length including the note [characters].
    note: returns a note on the omitted lines, given the number of lines taken; may be empty.
    """
    remaining = max(limit - len(note(0)) - _NOTE_MARGIN, limit // 2)
    taken: list[str] = []
    for line in lines:
        if len(line) + 1 > remaining:
            if not taken:
                taken.append(line[: max(0, remaining)])
            break
        remaining -= len(line) + 1
        taken.append(line)
    parts = ("\n".join(taken), note(len(taken)))
    return "\n".join(part for part in parts if part)[:limit]
