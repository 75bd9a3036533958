"""Group lines into quotable units: a paragraph, a list item, a table row, each with its headings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from run_specialist.providers.offline.similarity import roots

_HEADING = re.compile(r"#{1,6}\s+\S")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|[^\w\s!-~]{1,2})\s+")
_ALONE = re.compile(r"\s*[|>]|\s*(?:```|~~~)|\s{4,}\S")
_FENCE = re.compile(r"\s*(?:```|~~~)\s*(\S*).*")
_RULE = re.compile(r"\s*\|[\s:|-]*-[\s:|-]*")
_EMPTY = re.compile(r"[\W_]*")
_MOST_LINES = 8
_LABEL = 7
_GAP = 3
_CAPITALS = re.compile(r"\b[A-Z]{2,4}\b")
_NEAR = 3


@dataclass(frozen=True, eq=False)
class Quotable:
    """Consecutive lines of a file that belong together."""

    path: str
    line: int
    """Number of the first line."""
    text: str
    """Verbatim lines, joined by newlines."""
    headings: tuple[str, ...]
    """Headings above the unit, if they were seen."""
    around: str
    """Lines just before and after the unit."""
    is_heading: bool = False
    is_label: bool = False
    """True if the unit introduces what follows: the line before a list, a table header."""
    is_code: bool = False
    """True inside a fenced code block."""

    @property
    def end(self) -> int:
        """Number of the last line."""
        return self.line + self.text.count("\n")

    @cached_property
    def roots(self) -> frozenset[str]:
        """Roots of the unit's words."""
        return roots(self.text)

    @cached_property
    def capitals(self) -> frozenset[str]:
        """The unit's words in capital letters."""
        return frozenset(_CAPITALS.findall(self.text))

    @cached_property
    def root_list(self) -> str:
        """The roots in one string, each after a space."""
        return "".join(f" {root}" for root in self.roots)

    @cached_property
    def near_roots(self) -> frozenset[str]:
        """Roots of the words in the unit, in adjacent lines, in its headings and its path."""
        return self.roots | roots(self.around) | self.heading_roots

    @cached_property
    def label_roots(self) -> frozenset[str]:
        """Roots of the words in the nearest heading or label."""
        return roots(self.headings[-1]) if self.headings else frozenset()

    @cached_property
    def heading_roots(self) -> frozenset[str]:
        """Roots of the words in the unit's headings and its path."""
        return roots(" ".join([*self.headings, self.path.replace("/", " ")]))


def units(path: str, lines: Mapping[int, Sequence[str]]) -> Iterator[Quotable]:
    """Group the known lines of a file into units."""
    headings: dict[int, str] = {}
    code = _fenced(lines)
    led = False
    for numbers in _groups(lines):
        text = "\n".join(lines[number][0] for number in numbers)
        first, last = numbers[0], numbers[-1]
        if led and not (_ITEM.match(text) or _ALONE.match(text)):
            headings.pop(_LABEL, None)
        level = 0 if first in code else _level(text, lines.get(last + 1, [""])[0])
        is_heading = 0 < level < _LABEL
        if level:
            headings = {depth: heading for depth, heading in headings.items() if depth < level}
        near = [*range(first - _NEAR, first), *range(last + 1, last + 1 + _NEAR)]
        around = "\n".join(part for number in near for part in lines.get(number, ()))
        # If only parts of a line are known, each part is a unit.
        for part in lines[first] if first == last else [text]:
            yield Quotable(
                path, first, part, tuple(headings.values()), around, is_heading, level == _LABEL, first in code
            )
        if level:
            headings[level] = text
        # A label introduces one paragraph, or the list or table below it.
        led = level != _LABEL


def _fenced(lines: Mapping[int, Sequence[str]]) -> set[int]:
    """Return the numbers of the lines in fenced code blocks, if the fences were seen."""
    code: set[int] = set()
    opened, before, begin = False, 0, 0
    for number in sorted(lines):
        # A gap may have closed a fence. Small gaps do not count: search results omit blank lines.
        if number - before > _GAP:
            opened, begin = False, number
        fence = _FENCE.fullmatch(lines[number][0])
        if fence and not (opened or fence[1] or lines.get(number + 1, [""])[0].strip()):
            # A blank line follows, so this fence closes a block that was opened before the first known line.
            code.update(line for line in lines if begin <= line <= number)
        elif fence:
            opened = not opened
        if fence or opened:
            code.add(number)
        if fence:
            begin = number + 1
        before = number
    return code


def _level(text: str, below: str) -> int:
    """Return the level of a heading, `_LABEL` for a line that introduces what follows, 0 for any other line."""
    if _HEADING.match(text):
        return text.index(" ")
    leads = text.rstrip().rstrip("*_").endswith((":", "?")) or _RULE.fullmatch(below)
    return _LABEL if "\n" not in text and leads else 0


def _groups(lines: Mapping[int, Sequence[str]]) -> Iterator[list[int]]:
    """Yield the numbers of lines that belong together, without lines that contain no words."""
    group: list[int] = []
    for number in sorted(lines):
        text = lines[number][0]
        joins = (
            group
            and number == group[-1] + 1
            and len(group) < _MOST_LINES
            and len(lines[number]) == 1 == len(lines[group[-1]])
            and not (_HEADING.match(text) or _ITEM.match(text) or _ALONE.match(text))
            and not (_HEADING.match(lines[group[-1]][0]) or _ALONE.match(lines[group[-1]][0]))
        )
        if _EMPTY.fullmatch(text):
            joins = False
        if group and not joins:
            yield group
            group = []
        if not _EMPTY.fullmatch(text):
            group.append(number)
    if group:
        yield group
