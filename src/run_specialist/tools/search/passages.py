"""Split text into short passages."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_PROSE = {".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".org", ""}
_TARGET_SIZE = 600
"""Minimum length at which a passage ends at the next good break [characters]."""
_HEADING = re.compile(r"(#{1,6})\s+[^\s#]")
_UNDERLINES = frozenset('=-~^"*')
_NOT_IN_TITLE = frozenset(("", *"|->#* \t"))
_FENCES = ("```", "~~~")
_BREAKS = (re.compile(r"[.!?]\s+"), re.compile(r"\s+"))


Line = tuple[int, str]
"""Line number, from 1, and text; `…` marks where a long line was split."""


@dataclass(slots=True)
class Passage:
    """Consecutive lines below one heading."""

    headings: tuple[Line, ...]
    """Headings from the title down to the nearest one."""
    lines: list[Line] = field(default_factory=list)
    """Nonempty lines."""
    size: int = 0
    """Total length of the lines [characters]."""

    @property
    def text(self) -> str:
        """Lines as one string."""
        return "\n".join(text for _, text in self.lines)


def is_prose(path: str) -> bool:
    """Return whether a file is prose, not code, by its extension."""
    return PurePosixPath(path).suffix.casefold() in _PROSE


def passages(lines: Iterable[str], *, prose: bool, first: int = 1) -> Iterator[Passage]:
    """Split lines into passages, at headings, at blank lines and after enough text.

    prose: False for code, where a leading `#` is not a heading.
    first: number of the first line.
    """
    for headings, section in _sections(enumerate(lines, first), prose=prose):
        passage = Passage(headings)
        for number, line in section:
            if passage.size > (2 * _TARGET_SIZE if line else _TARGET_SIZE):
                yield passage
                passage = Passage(headings)
            for part in [line] if len(line) <= _TARGET_SIZE else _parts(line):
                if passage.size > _TARGET_SIZE // 2 and part is not line:
                    yield passage
                    passage = Passage(headings)
                if part:
                    passage.lines.append((number, part))
                    passage.size += len(part)
        yield passage


def _sections(lines: Iterable[Line], *, prose: bool) -> Iterator[tuple[tuple[Line, ...], list[Line]]]:
    """Yield the headings and the lines of each section; blank lines become empty."""
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
        # An underline makes the line before it a heading.
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
    """Return the fence of the code block or front matter that is open after this line; empty if none is."""
    if opened:
        return "" if start == opened else opened
    return start if start in _FENCES or (number == 1 and start == "---") else ""


def _level(line: str, section: Sequence[Line]) -> int:
    """Return the level of the heading that this line is or underlines; 0 if none."""
    if line.startswith("#"):
        heading = _HEADING.match(line)
        return len(heading[1]) if heading else 0
    if line[:1] not in _UNDERLINES or not section:
        return 0
    above, underline = section[-1][1], line.strip()
    underlined = len(set(underline)) == 1 and len(underline) >= max(3, len(above.strip()) - 1)
    return (1 if underline[0] == "=" else 2) if underlined and above[:1] not in _NOT_IN_TITLE else 0


def _parts(line: str) -> Iterator[str]:
    """Split a long line after sentences, else between words, and mark the splits."""
    start = 0
    while start < len(line):
        end = start + _TARGET_SIZE
        if end < len(line):
            ends = [[found.end() for found in kind.finditer(line, start + _TARGET_SIZE // 2, end)] for kind in _BREAKS]
            end = next((good[-1] for good in ends if good), end)
        yield f"{'… ' if start else ''}{line[start:end].strip()}{' …' if end < len(line) else ''}"
        start = end
