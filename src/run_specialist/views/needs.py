"""How many tool calls a question needs, known from runs of which some were cut before they had shown it. Pure values.

A run that ended by itself needed what it used. One that a limit cut needed at least that much; leaving it out would
make the need look small just where the limit is too low. Such data are called censored, and what they tell is reckoned
by the product-limit estimator: E. L. Kaplan and P. Meier, "Nonparametric Estimation from Incomplete Observations",
Journal of the American Statistical Association 53 (1958), 457-481.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any, Self

CONTEXT = "context"
"""What cut a run whose model had no more room: its landing says tokens, of which there was no limit."""
JUDGED = ("answered", "landed", "partial")
"""Statuses of runs that tell of a need; the others broke off for reasons of their own."""
MOST_BARS = 12


@dataclass(frozen=True, slots=True)
class Need:
    """What one run tells of the tool calls that a question needs."""

    calls: int
    """As many were used."""
    known: bool
    """True when the run ended by itself and needed just these; else it needed at least these."""
    limit: int | None
    """How many it might have used; None = as many as it liked."""
    cut_by: str | None = None
    """The kind of limit that cut it, or `context`; None when no limit did."""

    @classmethod
    def of(cls, outcome: Mapping[str, Any]) -> Self | None:
        """Return what an outcome, as `--json` prints it, tells; None when it failed or was aborted."""
        if outcome["status"] not in JUDGED:
            return None
        calls = outcome["tool_calls"]
        return cls(calls["used"], outcome["status"] == "answered", calls["limit"], reason(outcome))

    def had(self, calls: int) -> bool:
        """Say whether the run was free to use that many calls and to end after them by itself."""
        return self.calls > calls or (self.known and (self.limit is None or self.limit > calls))


def reason(outcome: Mapping[str, Any]) -> str | None:
    """Return what ended the work of a run: a kind of limit, or `context`; None when it did not land."""
    landing = outcome["landing"]
    if landing is None:
        return None
    kind = str(landing["reason"])
    return CONTEXT if outcome["limits"][kind]["limit"] is None else kind


def enough_for(needs: Sequence[Need], share: Fraction) -> int | None:
    """Return the least number of calls within which this share of all runs would have ended by themselves.

    None when too many were cut to know it. A run that was cut after so many calls was not seen to need no more than
    these, so it counts as one that needs more only for fewer.
    Source: Kaplan and Meier (1958), see above.
    """
    ended = Counter(need.calls for need in needs if need.known)
    cut = Counter(need.calls for need in needs if not need.known)
    going = Fraction(1)
    for calls in sorted(ended):
        at_risk = sum(ended[n] for n in ended if n >= calls) + sum(cut[n] for n in cut if n > calls)
        going *= 1 - Fraction(ended[calls], at_risk)
        if going <= 1 - share:
            return calls
    return None


@dataclass(frozen=True, slots=True)
class NeedBar:
    """Runs that used about as many tool calls."""

    first: int
    last: int
    """Still in it."""
    ended: int
    """Runs that ended by themselves."""
    cut: int
    """Runs that were cut short."""


def bars(needs: Sequence[Need]) -> tuple[NeedBar, ...]:
    """Return the distribution of calls used, from the least to the most, in at most twelve bars of one width."""
    if not needs:
        return ()
    least, most = min(need.calls for need in needs), max(need.calls for need in needs)
    width = next(
        size
        for ten in count()
        for size in (10**ten, 2 * 10**ten, 5 * 10**ten)
        if most // size - least // size < MOST_BARS
    )
    found = Counter((need.calls // width, need.known) for need in needs)
    return tuple(
        NeedBar(place * width, (place + 1) * width - 1, found[place, True], found[place, False])
        for place in range(least // width, most // width + 1)
    )
