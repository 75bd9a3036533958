"""Estimate the number of tool calls that questions need, from runs of which some were cut by a limit; pure functions.

A run that ended by itself needed the calls it used. A run that a limit cut needed at least that many; ignoring it would
underestimate the need exactly where the limit is too low. Such data are right-censored, and the product-limit estimator
handles them: E. L. Kaplan and P. Meier, "Nonparametric Estimation from Incomplete Observations", Journal of the
American Statistical Association 53 (1958), 457-481.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any, Self

CONTEXT = "context"
"""Cause of a landing at a full context window: the outcome then gives `tokens` as the reason, without a limit."""
JUDGED = ("answered", "landed", "partial")
"""Statuses of runs that are evaluated; other runs ended for unrelated reasons."""
MOST_BARS = 12


@dataclass(frozen=True, slots=True)
class Need:
    """The tool calls that one run needed."""

    calls: int
    """Number of calls used."""
    known: bool
    """True if the run ended by itself and needed exactly `calls`; else it needed at least `calls`."""
    limit: int | None
    """The tool-call limit of the run; None = no limit."""
    cut_by: str | None = None
    """The kind of limit that cut the run, or `context`; None without a landing."""

    @classmethod
    def of(cls, outcome: Mapping[str, Any]) -> Self | None:
        """Return the need shown by an outcome in the form of `--json`; None if the run failed or was aborted."""
        if outcome["status"] not in JUDGED:
            return None
        calls = outcome["tool_calls"]
        return cls(calls["used"], outcome["status"] == "answered", calls["limit"], reason(outcome))

    def could_end_after(self, calls: int) -> bool:
        """Return whether the run could have used that many calls and then ended by itself."""
        return self.calls > calls or (self.known and (self.limit is None or self.limit > calls))


def reason(outcome: Mapping[str, Any]) -> str | None:
    """Return the cause of a landing: a kind of limit, or `context`; None if the run did not land."""
    landing = outcome["landing"]
    if landing is None:
        return None
    kind = str(landing["reason"])
    return CONTEXT if outcome["limits"][kind]["limit"] is None else kind


def enough_for(needs: Sequence[Need], share: Fraction) -> int | None:
    """Return the smallest number of calls within which this share of runs ends by itself.

    None if too many runs were cut to estimate it. A run cut after n calls counts as at risk only below n, because it
    might have ended after exactly n calls.
    Source: Kaplan and Meier (1958), see the module's docstring.
    """
    ended = Counter(need.calls for need in needs if need.known)
    cut = Counter(need.calls for need in needs if not need.known)
    surviving = Fraction(1)
    for calls in sorted(ended):
        at_risk = sum(ended[n] for n in ended if n >= calls) + sum(cut[n] for n in cut if n > calls)
        surviving *= 1 - Fraction(ended[calls], at_risk)
        if surviving <= 1 - share:
            return calls
    return None


@dataclass(frozen=True, slots=True)
class NeedBar:
    """One bar of a histogram of calls used."""

    first: int
    last: int
    """Largest number of calls in the bar, inclusive."""
    ended: int
    """Number of runs that ended by themselves."""
    cut: int
    """Number of runs that were cut."""


def bars(needs: Sequence[Need]) -> tuple[NeedBar, ...]:
    """Return a histogram of calls used, with at most twelve bars of equal width."""
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
        NeedBar(index * width, (index + 1) * width - 1, found[index, True], found[index, False])
        for index in range(least // width, most // width + 1)
    )
