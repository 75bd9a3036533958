"""Cut a text into passages small enough to be judged at a glance."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_FULL = 600
"""A passage is closed at the first good place after this many characters."""
_HEADING = re.compile(r"#{1,6}\s+(.*?)[\s#]*$")
_UNDERLINE = re.compile(r"(=|-|~|\^|\"|\*){3,}\s*$")
_FENCES = ("```", "~~~")
_BREAKS = (re.compile(r"[.!?]\s+"), re.compile(r"\s+"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A line, or a part of one that is too long."""

    line: int
    """From 1."""
    text: str
    whole: bool = True
    """False when the line goes on before or after it."""


@dataclass(slots=True)
class Passage:
    """Consecutive lines below one heading."""

    headings: tuple[Piece, ...]
    """From the title down to the nearest heading above."""
    pieces: list[Piece] = field(default_factory=list)
    size: int = 0
    """Of the pieces together [characters]."""

    @property
    def text(self) -> str:
        """The lines in one string."""
        return "\n".join(piece.text for piece in self.pieces)


def passages(lines: Iterable[str], *, prose: bool) -> Iterator[Passage]:
    """Cut lines into passages, at headings, blank lines and after enough text.

    prose: False for program text, where a leading `#` is no heading.
    """
    headings: list[tuple[int, Piece]] = []
    passage = Passage(())
    fence = ""
    for number, line in enumerate(lines, 1):
        fence, before = _fence(fence, number, line), fence
        level = _level(line, passage) if prose and not (fence or before) else 0
        if level or (not line.strip() and passage.size > _FULL) or passage.size > 2 * _FULL:
            title = passage.pieces.pop() if level and not line.startswith("#") else None
            if passage.pieces:
                yield passage
            if level:
                headings = [item for item in headings if item[0] < level]
                headings.append((level, title or Piece(number, line)))
            passage = Passage(tuple(piece for _, piece in headings))
            if level:
                continue
        if line.strip():
            for piece in _pieces(number, line):
                if passage.size > _FULL and not piece.whole:
                    yield passage
                    passage = Passage(passage.headings)
                passage.pieces.append(piece)
                passage.size += len(piece.text)
    if passage.pieces or headings:
        yield passage


def _fence(opened: str, number: int, line: str) -> str:
    """Return the mark of the code, or of the front matter, that is open after this line; empty for none."""
    mark = line.strip()[:3]
    if opened:
        return "" if mark == opened else opened
    return mark if mark in _FENCES or (number == 1 and mark == "---") else ""


def _level(line: str, passage: Passage) -> int:
    """Return the depth of a heading that this line is, or that it underlines; 0 for none."""
    if match := _HEADING.match(line):
        return line.index(" ") if match[1] else 0
    underlined = _UNDERLINE.match(line) and passage.pieces and passage.pieces[-1].text[:1] not in "|->#*"
    if (
        underlined
        and len(set(line.strip())) == 1
        and len(line.strip()) >= len(passage.pieces[-1].text.strip()) - 1
    ):
        return 1 if line[0] == "=" else 2
    return 0


def _pieces(number: int, line: str) -> Iterator[Piece]:
    """Split a long line after sentences, each piece verbatim."""
    if len(line) <= _FULL:
        yield Piece(number, line)
        return
    start = 0
    while start < len(line):
        end = start + _FULL
        if end < len(line):
            ends = [
                [found.end() for found in kind.finditer(line, start + _FULL // 2, end)] for kind in _BREAKS
            ]
            end = next((good[-1] for good in ends if good), end)
        yield Piece(number, line[start:end], whole=False)
        start = end
