"""The line of the live view with budget, spending and time; it fits the width of the terminal."""

from collections.abc import Iterator

from rich.text import Text

from run_specialist.budget import units
from run_specialist.budget.budget import Kind, Phase
from run_specialist.cli.call_lines import COLORS
from run_specialist.cli.running_total import RunningTotal
from run_specialist.record.events import BudgetSpent

WIDEST_BAR = 24
NARROWEST_BAR = 8
"""Minimum width of the bar, below which the text is shortened first [columns]."""
_THOUSAND = 1_000
_MILLION = 1_000_000


def gauge(budget: BudgetSpent, calls: int, turn: int, total: RunningTotal, seconds: float, width: int) -> Text:
    """Return the line, in at most `width` columns.

    budget: state of the limit closest to exhaustion; its `limit` is None if there is none.
    calls: number of tool calls, shown if there is no limit.
    """
    usages, rests = _usages(budget, calls), [*_rests(turn, total, seconds)]
    bar = NARROWEST_BAR if budget.limit is not None else 0
    forms = [(usages[0], rests[0], bar), (usages[0], rests[1], bar), (usages[1], rests[2], 0), (usages[1], rests[3], 0)]
    fitting = (form for form in forms if sum(map(len, form[:2])) + form[2] <= width)
    usage, rest, _ = next(fitting, forms[-1])
    size = min(max(width - len(usage) - len(rest), 0), WIDEST_BAR) if bar else 0
    color = COLORS[Phase(budget.phase)] if bar else "dim"
    text = _bar(budget, size, color).append(usage, color).append(rest, "dim")
    text.truncate(width, overflow="ellipsis")
    return text


def _bar(budget: BudgetSpent, size: int, color: str) -> Text:
    filled = size if not budget.limit else round(size * min(budget.used / budget.limit, 1))
    bar = Text("━" * filled, color, no_wrap=True, overflow="ellipsis")
    return bar.append("━" * (size - filled), "bright_black")


def _usages(budget: BudgetSpent, calls: int) -> tuple[str, str]:
    """Return the usage of the budget as text, in full and in short."""
    if budget.limit is None:
        return f"{units.amount(Kind.TOOL_CALLS, calls)}, no limit", units.amount(Kind.TOOL_CALLS, calls)
    kind = Kind(budget.kind)
    used = units.number(kind, budget.used)
    return f" {used} of {units.of(kind, budget.limit)}", f" {used}/{units.number(kind, budget.limit)}"


def _rests(turn: int, total: RunningTotal, seconds: float) -> Iterator[str]:
    """Yield the remainder of the line, from the longest form to the shortest."""
    # An unknown price is named at the end of the run, not all the time; offline nothing is billed.
    cost = [units.dollars(total.cost_usd)] if total.cost_usd else []
    elapsed, tokens = f"{seconds:.0f} s", f"{_short(total.tokens)} tokens"
    yield _joined(f"turn {turn}", f"{total.tokens:,} tokens", *cost, elapsed)
    yield _joined(f"{total.tokens:,} tokens", *cost, elapsed)
    yield _joined(tokens, *cost, elapsed)
    yield _joined(*(cost or [tokens]), elapsed)


def _joined(*parts: str) -> str:
    return f"  {' · '.join(parts)}"


def _short(tokens: int) -> str:
    """Return a number of tokens in few characters, such as `12.3k`."""
    for unit, letter in ((_MILLION, "M"), (_THOUSAND, "k")):
        if tokens >= unit:
            return f"{tokens / unit:.3g}{letter}" if tokens < _THOUSAND * unit else f"{tokens // unit:,}{letter}"
    return str(tokens)
