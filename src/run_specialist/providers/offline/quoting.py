"""Verbatim quotes with their source: cut to the best part, or extended by adjacent lines."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from run_specialist.providers.offline.code_block import CodeBlock
from run_specialist.providers.offline.quotable import Quotable

_ENDS = (re.compile(r"(?<=[.!?;])\s+"), re.compile(r"\n\s*"), re.compile(r"\s+"))
"""Where a piece may start or end, preferred boundaries first."""
_LINE_ENDS = (re.compile(r"\n"), re.compile(r"\s+"))
"""The same in code, where a piece begins with its indentation."""


@dataclass(frozen=True)
class Quote:
    """Verbatim text with its source."""

    path: str
    line: int
    text: str
    is_code: bool = False
    """True for lines of code, which are shown as such."""

    @property
    def source(self) -> str:
        """The source as `path:line`."""
        return f"{self.path}:{self.line}"

    def __str__(self) -> str:
        if self.is_code:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
            source = self.source if "`" in self.path else f"`{self.source}`"
            return f"{source}\n{fence}{PurePosixPath(self.path).suffix[1:]}\n{self.text}\n{fence}"
        return f'> "{self.text}" — {self.source}'


def cut(unit: Quotable, longest: int, rate: Callable[[str], float]) -> Quote:
    """Return a quote of a unit: all of it, else the best sentences that fit, else the best lines or words.

    longest: maximum length [characters].
    rate: scores a piece of text.
    """
    is_code = isinstance(unit, CodeBlock)
    spans = _spans(unit.text, longest, _LINE_ENDS if is_code else _ENDS, 0 if is_code else _indent(unit.text))
    start, end = max(spans, key=lambda span: (rate(unit.text[slice(*span)]), -span[0]))
    return Quote(unit.path, unit.line + unit.text.count("\n", 0, start), unit.text[start:end], is_code)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _spans(text: str, longest: int, boundaries: Sequence[re.Pattern[str]], begin: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each piece that could be quoted.

    boundaries: where a piece may start or end, preferred ones first.
    begin: where the first piece may start.
    """
    end_of_text = len(text.rstrip())
    if end_of_text - begin <= longest:
        yield begin, end_of_text
        return
    stops = [begin, end_of_text]
    for ends in boundaries:
        stops = sorted({*stops, *(found.end() for found in ends.finditer(text, begin, end_of_text))})
        if all(after - before <= longest for before, after in pairwise(stops)):
            break
    for position, start in enumerate(stops[:-1]):
        fitting = [stop for stop in stops[position + 1 :] if stop - start <= longest]
        end = fitting[-1] if fitting else start + longest
        yield start, start + len(text[start:end].rstrip())


def grown(
    unit: Quotable, neighbours: Sequence[Quotable], longest: int, worth: Callable[[Quotable], bool]
) -> list[Quotable]:
    """Return a unit extended by the directly following and preceding units that are worth it and fit.

    neighbours: all units of the file in order.
    longest: maximum total length [characters].
    worth: returns whether a unit is good enough to be added.
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
            led = upper.is_label and lower.headings[-1:] == (upper.text,)
            joined = lower.line == upper.end + 1 and (led or (other.headings == edge.headings and not other.is_heading))
            if not joined or size + 1 + len(other.text) > longest or not (led or worth(other)):
                break
            size += 1 + len(other.text)
            first, last = (first, at) if step > 0 else (at, last)
    return list(neighbours[first : last + 1])
