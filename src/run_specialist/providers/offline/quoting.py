"""Verbatim quotes with their place: cut to what matters, or grown by the lines that belong to them."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from run_specialist.providers.offline.units import Unit

GOOD = 220
"""Longer ones are cut to their best sentences, shorter ones may grow up to this [characters]."""
_SPACE = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")


@dataclass(frozen=True)
class Quote:
    """Verbatim text and its place."""

    path: str
    line: int
    text: str

    @property
    def source(self) -> str:
        """The place as `path:line`."""
        return f"{self.path}:{self.line}"

    def __str__(self) -> str:
        return f'> "{self.text}" — {self.source}'


def cut(unit: Unit, rate: Callable[[str], float]) -> Quote:
    """Quote a unit, or its best sentences, or its best words where a sentence is too long.

    rate: tells how much a piece of text is worth.
    """
    spans = list(_spans(unit.text))
    start, end = max(spans, key=lambda span: (rate(unit.text[slice(*span)]), -span[0]))
    return Quote(unit.path, unit.line + unit.text.count("\n", 0, start), unit.text[start:end])


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each piece that could be quoted."""
    begin, whole = len(text) - len(text.lstrip()), len(text.rstrip())
    if whole - begin <= GOOD:
        yield begin, whole
        return
    stops = [begin, *(found.end() for found in _SENTENCE_END.finditer(text, begin, whole)), whole]
    if any(after - before > GOOD for before, after in pairwise(stops)):
        stops = sorted({*stops, *(found.end() for found in _SPACE.finditer(text, begin, whole))})
    for position, start in enumerate(stops[:-1]):
        ends = [stop for stop in stops[position + 1 :] if stop - start <= GOOD]
        end = ends[-1] if ends else start + GOOD
        yield start, start + len(text[start:end].rstrip())


def grown(unit: Unit, neighbours: Sequence[Unit], worth: Callable[[Unit], bool]) -> list[Unit]:
    """Return a unit with those that follow and precede it line by line, as long as they are worth it and fit.

    neighbours: all units of the file in order.
    """
    first = last = neighbours.index(unit)
    size = len(unit.text)
    for step in (1, -1):
        while True:
            at = last + 1 if step > 0 else first - 1
            if not 0 <= at < len(neighbours):
                break
            other, edge = neighbours[at], neighbours[last if step > 0 else first]
            upper, lower = (edge, other) if step > 0 else (other, edge)
            joined = lower.line == upper.end + 1 and other.headings == unit.headings and not other.is_heading
            if not joined or size + 1 + len(other.text) > GOOD or not worth(other):
                break
            size += 1 + len(other.text)
            first, last = (first, at) if step > 0 else (at, last)
    return list(neighbours[first : last + 1])
