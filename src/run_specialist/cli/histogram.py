"""A histogram of tool calls, drawn with characters in the width of the terminal."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import typer

from run_specialist.cli.console import has_colours, print_styled
from run_specialist.views.needs import NeedBar

_BLOCKS = ("█", "░", "◀", "⋮")
_ASCII = ("#", ":", "<", "...")
_WIDEST_RUN = 4
"""Columns that one run takes at most."""
_LEAST_ROOM = 10
"""Columns that the longest bar gets, however narrow the terminal is."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What the bars are made of."""

    ended: str
    cut: str
    mark: str
    gap: str

    @classmethod
    def of_stdout(cls) -> "Signs":
        """Return block characters where standard output can take them, else ASCII."""
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        try:
            "".join(_BLOCKS).encode(encoding)
        except (UnicodeError, LookupError):
            return cls(*_ASCII)
        return cls(*_BLOCKS)


def print_histogram(bars: Sequence[NeedBar], marks: Sequence[tuple[int, str]]) -> None:
    """Print a line for each bar, what ended by itself before what was cut.

    marks: numbers of calls, and what stands beside the bar that each falls into; one beyond all bars gets its own line.
    """
    signs, rows = Signs.of_stdout(), _rows(bars, marks)
    most = max((bar.ended + bar.cut for _, bar, _ in rows if bar), default=1)
    label = max(len(name) for name, _, _ in rows)
    beside = max((len(told) + 4 for _, _, told in rows if told), default=0)
    room = max(shutil.get_terminal_size().columns - label - len(str(most)) - beside - 4, _LEAST_ROOM)
    unit = min(room / most, _WIDEST_RUN)
    for name, bar, told in rows:
        ended, cut, count = _lengths(bar, unit) if bar else (0, 0, "")
        line = f"{name or signs.gap:>{label}}  "
        line += _coloured(signs.ended * ended, typer.colors.GREEN) + _coloured(signs.cut * cut, typer.colors.YELLOW)
        line += f" {count}" if count else ""
        if told:
            taken = ended + cut + (len(count) + 1 if count else 0)
            line += " " * (round(unit * most) + len(str(most)) + 1 - taken) + f"  {signs.mark} {told}"
        print_styled(line.rstrip())


_Row = tuple[str, NeedBar | None, str]
_NOTHING: _Row = ("", None, "")
"""Stands for numbers that are left out."""


def _rows(bars: Sequence[NeedBar], marks: Sequence[tuple[int, str]]) -> list[_Row]:
    """Return name, bar and mark of each line."""
    rows: list[_Row] = []
    for bar in bars:
        name = str(bar.first) if bar.first == bar.last else f"{bar.first}-{bar.last}"
        rows.append((name, bar, _told(marks, bar.first, bar.last)))
    below = sorted({number for number, _ in marks if number < bars[0].first}, reverse=True)
    above = sorted({number for number, _ in marks if number > bars[-1].last})
    end = bars[0].first
    for number in below:
        rows[:0] = [(str(number), None, _told(marks, number, number)), *[_NOTHING] * (number < end - 1)]
        end = number
    end = bars[-1].last
    for number in above:
        rows += [*[_NOTHING] * (number > end + 1), (str(number), None, _told(marks, number, number))]
        end = number
    return rows


def _told(marks: Sequence[tuple[int, str]], first: int, last: int) -> str:
    return ", ".join(what for number, what in marks if first <= number <= last)


def _lengths(bar: NeedBar, unit: float) -> tuple[int, int, str]:
    """Return the columns of both parts, none of them lost to rounding, and how many runs they are."""
    whole = max(round((bar.ended + bar.cut) * unit), (bar.ended > 0) + (bar.cut > 0))
    cut = min(max(round(bar.cut * unit), bar.cut > 0), whole - (bar.ended > 0))
    return whole - cut, cut, str(bar.ended + bar.cut or "")


def _coloured(text: str, colour: str) -> str:
    return typer.style(text, fg=colour) if text and has_colours() else text
