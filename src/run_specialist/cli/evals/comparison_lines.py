"""Format the comparison of variants as lines for people."""

import shutil
from collections.abc import Iterator, Sequence

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.map_units import duration
from run_specialist.cli.console import has_colours, is_terminal, print_line, print_styled, printable
from run_specialist.cli.wrapping import wrapped
from run_specialist.evals.comparison import Comparison, MetricDifference
from run_specialist.evals.verdict_text import notes, verdict_text

_NOUNS = {"cost_usd": "cost", "tool_calls": "tool calls", "tokens": "tokens", "seconds": "time"}
_LARGE = 100
"""Numbers from this on are shown without decimals."""
_COLORS = {"better": typer.colors.GREEN, "worse": typer.colors.RED, "cannot be told": typer.colors.YELLOW}


def print_comparisons(compared: Sequence[Comparison]) -> None:
    """Print the comparisons; the verdicts are colored on a terminal."""
    for one in compared:
        for number, line in enumerate(comparison_lines([one])):
            print_wrapped(line, None if number else _COLORS.get(one.verdict))


def print_wrapped(line: str, color: str | None = None) -> None:
    """Print a line, wrapped at words on a terminal."""
    if not is_terminal():
        print_line(line)
        return
    for part in wrapped(printable(line), shutil.get_terminal_size().columns):
        print_styled(typer.style(part, color) if color and has_colours() else part)


def comparison_lines(compared: Sequence[Comparison]) -> Iterator[str]:
    """Yield the verdict on each variant, its other differences, and notes on omitted runs."""
    for one in compared:
        yield f"{one.variant}: {verdict_text(one)}"
        told = [text for text, is_told in _besides(one) if is_told]
        chance = [text for text, is_told in _besides(one) if not is_told]
        groups = (("medians of the cases: ", told), ("differences that may be chance: ", chance))
        if besides := "; ".join(words + ", ".join(found) for words, found in groups if found):
            yield f"{one.variant}: {besides}"
        yield from (f"{one.variant}: {line}" for line in notes(one))


def _besides(one: Comparison) -> Iterator[tuple[str, bool]]:
    """Yield each other amount that differs, as a line with medians, and whether chance is excluded."""
    for name, found in one.medians.items():
        before, after = (_amount(name, value) for value in (found.baseline, found.variant))
        if before != after:
            yield f"{_NOUNS[name]} {before} → {after}", _is_told(found)


def _amount(name: str, value: float) -> str:
    if name == "cost_usd":
        return dollars(value)
    if name == "seconds":
        return duration(value)
    return f"{value:,.0f}" if value >= _LARGE else f"{value:,.1f}".removesuffix(".0")


def _is_told(found: MetricDifference) -> bool:
    return found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
