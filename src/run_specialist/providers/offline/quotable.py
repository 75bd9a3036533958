"""Lines put together to what can be quoted: a paragraph, a list item, a row, each below its headings."""

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
    """The number of its first line."""
    text: str
    """Verbatim, its lines joined by newlines."""
    headings: tuple[str, ...]
    """The headings above it, as far as they were seen."""
    around: str
    """The lines just before and after it."""
    is_heading: bool = False
    is_label: bool = False
    """It leads up to what follows: the line before a list, the head of a table."""
    is_code: bool = False
    """It stands between fences."""

    @property
    def end(self) -> int:
        """The number of its last line."""
        return self.line + self.text.count("\n")

    @cached_property
    def roots(self) -> frozenset[str]:
        """The roots of its words."""
        return roots(self.text)

    @cached_property
    def capitals(self) -> frozenset[str]:
        """Its words in capital letters."""
        return frozenset(_CAPITALS.findall(self.text))

    @cached_property
    def root_list(self) -> str:
        """The same in one string, a space before each."""
        return "".join(f" {root}" for root in self.roots)

    @cached_property
    def near_roots(self) -> frozenset[str]:
        """The roots of the words in it, around it, above it and in its path."""
        return self.roots | roots(self.around) | self.heading_roots

    @cached_property
    def label_roots(self) -> frozenset[str]:
        """The roots of the words in the nearest heading, or in the line that leads up to it."""
        return roots(self.headings[-1]) if self.headings else frozenset()

    @cached_property
    def heading_roots(self) -> frozenset[str]:
        """The roots of the words in its headings and its path."""
        return roots(" ".join([*self.headings, self.path.replace("/", " ")]))


def all_units(lines: Mapping[str, Mapping[int, Sequence[str]]]) -> list[Quotable]:
    """Put the known lines of all files together."""
    return [unit for path, known in lines.items() for unit in units(path, known)]


def units(path: str, lines: Mapping[int, Sequence[str]]) -> Iterator[Quotable]:
    """Put the known lines of a file together."""
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
        # A line of which only parts are known gives one unit for each part.
        for part in lines[first] if first == last else [text]:
            yield Quotable(
                path, first, part, tuple(headings.values()), around, is_heading, level == _LABEL, first in code
            )
        if level:
            headings[level] = text
        # A label leads up to one paragraph, or to the list or the table below it.
        led = level != _LABEL


def _fenced(lines: Mapping[int, Sequence[str]]) -> set[int]:
    """Return the numbers of the lines that are code, as far as their fences were seen."""
    code: set[int] = set()
    opened, before, begin = False, 0, 0
    for number in sorted(lines):
        # What was not seen may have closed a fence; blank lines are left out where passages are shown.
        if number - before > _GAP:
            opened, begin = False, number
        fence = _FENCE.fullmatch(lines[number][0])
        if fence and not (opened or fence[1] or lines.get(number + 1, [""])[0].strip()):
            # Nothing is fenced after it, so it closes what was opened before the first line that was seen.
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
    """Return how deep a heading is; a line that leads up to what follows comes below all headings."""
    if _HEADING.match(text):
        return text.index(" ")
    leads = text.rstrip().rstrip("*_").endswith((":", "?")) or _RULE.fullmatch(below)
    return _LABEL if "\n" not in text and leads else 0


def _groups(lines: Mapping[int, Sequence[str]]) -> Iterator[list[int]]:
    """Yield the numbers of lines that belong together; lines that say nothing belong nowhere."""
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
