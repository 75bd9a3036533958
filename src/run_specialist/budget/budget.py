"""The budget of a run: limits, spending, and how close each limit is. No I/O.

By default a kind is silent for the first half of its limit, then counts down; it is spent when only the reserve for
the landing remains. The phase of a run is the phase of its tightest kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache


class Kind(StrEnum):
    """A kind of spending that can be limited."""

    TOOL_CALLS = "tool_calls"
    TURNS = "turns"
    TOKENS = "tokens"
    COST = "cost"
    TIME = "time"
    CHARACTERS = "characters"

    place: int
    """Index of the kind in `Budget.limits`, which is faster than a look-up by a member."""

    @property
    def label(self) -> str:
        """The name of the kind in a sentence, e.g. `tool calls`."""
        return self.value.replace("_", " ")

    @property
    def key(self) -> str:
        """The key that limits the kind in a specialist's front matter."""
        return _KEYS.get(self.value, f"{self.value}_limit")


for _place, _kind in enumerate(Kind):
    _kind.place = _place
_KEYS = {"tokens": "total_tokens_limit", "characters": "tool_chars_limit"}


class Phase(StrEnum):
    """How close a limit is: not yet shown, counting down, or reached."""

    SILENT = "silent"
    COUNTDOWN = "countdown"
    SPENT = "spent"


COUNTDOWN_FROM = 0.5
"""Default share spent at which the countdown starts."""
MIN_LANDING_SECONDS = 5.0
"""Minimum time held back for the landing, but at most half of the time limit [s]."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit and the spending of one kind in one run."""

    kind: Kind
    limit: float | None
    """None = unlimited; 0 is a limit."""
    used: float = 0
    countdown_from: float | None = COUNTDOWN_FROM
    """When the countdown starts: a float = share spent, an integer = amount remaining, None = never."""
    held_back: float = 0
    """Reserve for the landing, which begins when only this much remains."""
    lent: float = 0
    """Amount reserved for children that have not ended."""

    @property
    def remaining(self) -> float | None:
        """Amount left, never below 0; None if unlimited."""
        return None if self.limit is None else max(self.limit - self.used - self.lent, 0)

    @property
    def until_landing(self) -> float | None:
        """Amount that can be spent before the landing begins, never below 0; None if unlimited."""
        return None if self.limit is None else max(self.limit - self.used - self.lent - self.held_back, 0)

    @property
    def phase(self) -> Phase:
        """How close the limit is."""
        limit, start = self.limit, self.countdown_from
        if limit is None:
            return Phase.SILENT
        if self.used + self.held_back >= limit:
            return Phase.SPENT
        if start is None:
            return Phase.SILENT
        counts_down = limit - self.used <= start if isinstance(start, int) else self.reached(start)
        return Phase.COUNTDOWN if counts_down else Phase.SILENT

    def reached(self, share: float) -> bool:
        """Return True if this share of the limit is spent; always False if unlimited."""
        return self.limit is not None and self.used >= _exact_product(share, self.limit)

    def spend(self, amount: float) -> "Limit":
        """Return the limit after spending `amount` more of it."""
        # `replace` takes three times as long.
        return Limit(self.kind, self.limit, self.used + amount, self.countdown_from, self.held_back, self.lent)

    @property
    def share(self) -> float:
        """The share spent; 0 if unlimited, 1 for a limit of 0."""
        if self.limit is None:
            return 0.0
        return self.used / self.limit if self.limit else 1.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The spending of all kinds in one run, limited or only counted."""

    limits: tuple[Limit, ...]
    """One for each kind, in the order of `Kind`."""

    @classmethod
    def of(cls, limits: Mapping[Kind, float | None], countdown_from: float | None = COUNTDOWN_FROM) -> "Budget":
        """Return an unspent budget; kinds missing from `limits` are counted without a limit.

        countdown_from: as in `Limit`; an integer applies to tool calls, and other kinds use COUNTDOWN_FROM.
        """
        amount_left: object = countdown_from
        others_start = COUNTDOWN_FROM if isinstance(amount_left, int) else countdown_from
        starts: dict[Kind, float | None] = dict.fromkeys(Kind, others_start)
        starts[Kind.TOOL_CALLS] = countdown_from
        given = {kind: limits.get(kind) for kind in Kind}
        return cls(tuple(Limit(kind, limit, 0, starts[kind], _held_back(kind, limit)) for kind, limit in given.items()))

    def __getitem__(self, kind: Kind) -> Limit:
        return self.limits[kind.place]

    def spend(self, amount: float = 1, kind: Kind = Kind.TOOL_CALLS) -> "Budget":
        """Return the budget after spending `amount` more of one kind.

        amount: >= 0; failed tool calls count, too [the kind's unit].
        Raises ValueError if amount < 0.
        """
        return self.spend_all({kind: amount})

    def spend_all(self, amounts: Mapping[Kind, float]) -> "Budget":
        """Return the budget after spending amounts of several kinds; raises ValueError as `spend` does."""
        if not amounts:
            return self
        limits = [*self.limits]
        for kind, amount in amounts.items():
            if amount < 0:
                raise ValueError(f"cannot spend a negative amount: {amount}")
            place = kind.place
            old = limits[place]
            # Not `old.spend(amount)`: each turn does this about fifteen times.
            limits[place] = Limit(old.kind, old.limit, old.used + amount, old.countdown_from, old.held_back, old.lent)
        return Budget(tuple(limits))

    def lend(self, amount: float, kind: Kind) -> "Budget":
        """Return the budget with `amount` more of one kind reserved for a child; a negative amount releases it."""
        return self._with(replace(self[kind], lent=self[kind].lent + amount))

    def hold(self, amount: float, kind: Kind) -> "Budget":
        """Return the budget with `amount` of one kind held back for the landing."""
        return self._with(replace(self[kind], held_back=amount))

    def limited(self, amount: float, kind: Kind) -> "Budget":
        """Return the budget with another limit of one kind [the kind's unit]."""
        return self._with(replace(self[kind], limit=amount))

    def _with(self, limit: Limit) -> "Budget":
        limits = [*self.limits]
        limits[limit.kind.place] = limit
        return Budget(tuple(limits))

    @property
    def tightest(self) -> Limit:
        """The limit closest to exhaustion; tool calls if nothing is limited."""
        limited = [limit for limit in self.limits if limit.limit is not None]
        if len(limited) > 1:
            return max(limited, key=lambda limit: (_PHASES.index(limit.phase), limit.share))
        return limited[0] if limited else self.limits[0]

    @property
    def phase(self) -> Phase:
        """The phase of the tightest kind."""
        return self.tightest.phase


_PHASES = tuple(Phase)


@cache
def _exact_product(share: float, limit: float) -> Fraction | int:
    # Exact decimal arithmetic: 0.55 of 20 is 11, not 11.000000000000002.
    product = Fraction(str(share)) * Fraction(str(limit))
    # Comparing integers is much faster, and each tool call compares several times.
    return product.numerator if product.denominator == 1 else product


def _held_back(kind: Kind, limit: float | None) -> float:
    """Return the initial reserve for the landing; the reserve of tokens and cost depends on the requests so far."""
    if kind is Kind.TURNS:
        return 1
    if kind is Kind.TIME and limit is not None:
        return min(max(limit / 10, MIN_LANDING_SECONDS), limit / 2)
    return 0
