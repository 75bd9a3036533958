"""What a run may spend, and how close it is to the end. Pure values.

A kind is silent for its first half, then counts down, and is spent when nothing remains but what is held back to pay
for the landing. The phase of a run is the phase of its tightest kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache


class Kind(StrEnum):
    """What can be limited."""

    TOOL_CALLS = "tool_calls"
    TURNS = "turns"
    TOKENS = "tokens"
    COST = "cost"
    TIME = "time"
    CHARACTERS = "characters"

    @property
    def words(self) -> str:
        """The kind as a person says it."""
        return self.value.replace("_", " ")

    @property
    def key(self) -> str:
        """The key of a specialist's file that limits it."""
        return _KEYS.get(self.value, f"{self.value}_limit")


_KEYS = {"tokens": "total_tokens_limit", "characters": "tool_chars_limit"}


class Phase(StrEnum):
    """How close a limit is."""

    SILENT = "silent"
    COUNTDOWN = "countdown"
    SPENT = "spent"


COUNTDOWN_FROM = 0.5
"""The share spent at which a countdown starts unless told otherwise."""
LANDING_SECONDS = 5.0
"""The least time that is held back for the landing, in a limit that has as much to spare [s]."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One kind of spending within one run."""

    kind: Kind
    limit: float | None
    """None means unlimited; 0 is a limit."""
    used: float = 0
    countdown_from: float | None = COUNTDOWN_FROM
    """A float is the share spent at which the countdown starts, an integer what then remains; None = no countdown."""
    held_back: float = 0
    """What the landing will cost; it begins while this much remains."""
    lent: float = 0
    """What children have been given to spend and have not settled yet."""

    @property
    def remaining(self) -> float | None:
        """What is left, never below 0; None when unlimited."""
        return None if self.limit is None else max(self.limit - self.used - self.lent, 0)

    @property
    def until_landing(self) -> float | None:
        """What may still be spent before the landing begins; None when unlimited."""
        return None if self.limit is None else max(self.limit - self.used - self.lent - self.held_back, 0)

    @property
    def phase(self) -> Phase:
        """Silent, countdown or spent."""
        if self.limit is None:
            return Phase.SILENT
        if self.used + self.held_back >= self.limit:
            return Phase.SPENT
        return Phase.COUNTDOWN if self._counts_down(self.limit) else Phase.SILENT

    def _counts_down(self, limit: float) -> bool:
        start = self.countdown_from
        if start is None:
            return False
        return limit - self.used <= start if _is_number_left(start) else self.reached(start)

    def reached(self, share: float) -> bool:
        """Say whether this share of the limit is spent; never of what is unlimited."""
        return self.limit is not None and self.used >= _part(share, self.limit)

    def spend(self, amount: float) -> "Limit":
        """Return the limit after spending `amount` more of it."""
        # Not by `replace`, which takes three times as long: this happens some twenty times a call.
        return Limit(self.kind, self.limit, self.used + amount, self.countdown_from, self.held_back, self.lent)

    @property
    def share(self) -> float:
        """The share that is spent, 0 when unlimited, 1 for a limit of 0."""
        if self.limit is None:
            return 0.0
        return self.used / self.limit if self.limit else 1.0


@dataclass(frozen=True, slots=True)
class Budget:
    """All kinds of spending of one run, limited or only counted."""

    limits: tuple[Limit, ...]
    """One for each kind, in their order."""

    @classmethod
    def of(cls, limits: Mapping[Kind, float | None], countdown_from: float | None = COUNTDOWN_FROM) -> "Budget":
        """Make an unspent budget; kinds that are not named are counted without a limit.

        countdown_from: see `Limit`; an integer means tool calls, the other kinds then start at the usual share.
        """
        return cls(
            tuple(
                Limit(kind, limit, 0, _countdown_from(kind, countdown_from), _held_back(kind, limit))
                for kind in Kind
                for limit in [limits.get(kind)]
            )
        )

    def __getitem__(self, kind: Kind) -> Limit:
        return self.limits[_PLACES[kind]]

    def spend(self, amount: float = 1, kind: Kind = Kind.TOOL_CALLS) -> "Budget":
        """Return the budget after spending `amount` more of one kind.

        amount: tool calls are attempts, not successes; >= 0 [the kind's unit].
        Raises ValueError if amount < 0.
        """
        if amount < 0:
            raise ValueError(f"cannot spend a negative amount: {amount}")
        return self._with(self[kind].spend(amount))

    def spend_all(self, amounts: Mapping[Kind, float]) -> "Budget":
        """Return the budget after spending some of several kinds; see `spend`."""
        budget = self
        for kind, amount in amounts.items():
            budget = budget.spend(amount, kind)
        return budget

    def lend(self, amount: float, kind: Kind) -> "Budget":
        """Return the budget with `amount` more of one kind given to a child; less than 0 takes it back."""
        return self._with(replace(self[kind], lent=self[kind].lent + amount))

    def hold(self, amount: float, kind: Kind) -> "Budget":
        """Return the budget with `amount` of one kind held back for the landing."""
        return self._with(replace(self[kind], held_back=amount))

    def _with(self, limit: Limit) -> "Budget":
        limits = [*self.limits]
        limits[_PLACES[limit.kind]] = limit
        return Budget(tuple(limits))

    @property
    def tightest(self) -> Limit:
        """The limit that is nearest to its end; tool calls when nothing is limited."""
        limited = [limit for limit in self.limits if limit.limit is not None]
        return max(limited or self.limits[:1], key=lambda limit: (_PHASES.index(limit.phase), limit.share))

    @property
    def phase(self) -> Phase:
        """The phase of the tightest kind."""
        return self.tightest.phase


_PHASES = tuple(Phase)
_PLACES = {kind: place for place, kind in enumerate(Kind)}


@cache
def _part(share: float, limit: float) -> Fraction:
    # Exact arithmetic on the numbers as they were written: 0.55 of 20 is 11, not 11.000000000000002.
    return Fraction(str(share)) * Fraction(str(limit))


def _is_number_left(start: object) -> bool:
    return isinstance(start, int)


def _countdown_from(kind: Kind, given: float | None) -> float | None:
    return COUNTDOWN_FROM if kind is not Kind.TOOL_CALLS and _is_number_left(given) else given


def _held_back(kind: Kind, limit: float | None) -> float:
    """Return what the landing costs in any case; of tokens and cost only the requests tell."""
    if kind is Kind.TURNS:
        return 1
    if kind is Kind.TIME and limit is not None:
        return min(max(limit / 10, LANDING_SECONDS), limit / 2)
    return 0
