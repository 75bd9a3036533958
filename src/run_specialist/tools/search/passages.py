"""Cut a text into passages small enough to be judged at a glance."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_PROSE = {".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".org", ""}
_FULL = 600
"""A passage is closed at the first good place after this many characters."""
_HEADING = re.compile(r"(#{1,6})\s+[^\s#]")
_UNDERLINES = frozenset('=-~^"*')
_NO_TITLE = frozenset(("", *"|->#* \t"))
_FENCES = ("```", "~~~")
_BREAKS = (re.compile(r"[.!?]\s+"), re.compile(r"\s+"))


Line = tuple[int, str]
"""The number of a line, from 1, and its text; `…` marks where a part of a long line was cut from the rest."""


@dataclass(slots=True)
class Passage:
    """Consecutive lines below one heading."""

    headings: tuple[Line, ...]
    """From the title down to the nearest heading above."""
    lines: list[Line] = field(default_factory=list)
    """Without the empty ones."""
    size: int = 0
    """Of the lines together [characters]."""

    @property
    def text(self) -> str:
        """The lines in one string."""
        return "\n".join(text for _, text in self.lines)


def is_prose(path: str) -> bool:
    """Tell by its name whether a file is written for people."""
    return PurePosixPath(path).suffix.casefold() in _PROSE


def passages(lines: Iterable[str], *, prose: bool, first: int = 1) -> Iterator[Passage]:
    """Cut lines into passages, at headings, at blank lines and after enough text.

    prose: False for program text, where a leading `#` is no heading.
    first: the number of the first line.
    """
    for headings, section in _sections(enumerate(lines, first), prose=prose):
        passage = Passage(headings)
        for number, line in section:
            if passage.size > (2 * _FULL if line else _FULL):
                yield passage
                passage = Passage(headings)
            for part in [line] if len(line) <= _FULL else _parts(line):
                if passage.size > _FULL // 2 and part is not line:
                    yield passage
                    passage = Passage(headings)
                if part:
                    passage.lines.append((number, part))
                    passage.size += len(part)
        yield passage


def _sections(lines: Iterable[Line], *, prose: bool) -> Iterator[tuple[tuple[Line, ...], list[Line]]]:
    """Yield what stands below each heading, after that heading and those above it; a blank line is empty."""
    headings: dict[int, Line] = {}
    section: list[Line] = []
    fence = ""
    for number, line in lines:
        start = line.lstrip()[:3]
        fence, before = _fence(fence, number, start), fence
        level = _level(line, section) if prose and not (fence or before) else 0
        if not level:
            section.append((number, line if start else ""))
            continue
        # A line of signs makes a heading of the line before it.
        title = (number, line) if line[0] == "#" else section.pop()
        if any(text for _, text in section):
            yield tuple(headings.values()), section
        elif level <= max(headings, default=0):
            *above, last = headings.values()
            yield tuple(above), [last]
        headings = {depth: heading for depth, heading in headings.items() if depth < level} | {level: title}
        section = []
    yield tuple(headings.values()), section or [*headings.values()][-1:]


def _fence(opened: str, number: int, start: str) -> str:
    """Return the mark of the code, or of the front matter, that is open after this line; empty for none."""
    if opened:
        return "" if start == opened else opened
    return start if start in _FENCES or (number == 1 and start == "---") else ""


def _level(line: str, section: Sequence[Line]) -> int:
    """Return the depth of a heading that this line is, or that it underlines; 0 for none."""
    if line.startswith("#"):
        heading = _HEADING.match(line)
        return len(heading[1]) if heading else 0
    if line[:1] not in _UNDERLINES or not section:
        return 0
    above, signs = section[-1][1], line.strip()
    underlined = len(set(signs)) == 1 and len(signs) >= max(3, len(above.strip()) - 1)
    return (1 if signs[0] == "=" else 2) if underlined and above[:1] not in _NO_TITLE else 0


def _parts(line: str) -> Iterator[str]:
    """Split a long line after sentences, or at least between words, and mark where."""
    start = 0
    while start < len(line):
        end = start + _FULL
        if end < len(line):
            ends = [[found.end() for found in kind.finditer(line, start + _FULL // 2, end)] for kind in _BREAKS]
            end = next((good[-1] for good in ends if good), end)
        yield f"{'… ' if start else ''}{line[start:end].strip()}{' …' if end < len(line) else ''}"
        start = end
