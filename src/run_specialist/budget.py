"""What a run may spend, and how close it is to the end. Pure values.

A kind is silent for its first half, then counts down, and is spent when nothing remains. The phase of a run is the
phase of its tightest kind.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction


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


class Phase(StrEnum):
    """How close a limit is."""

    SILENT = "silent"
    COUNTDOWN = "countdown"
    SPENT = "spent"


@dataclass(frozen=True, slots=True)
class Limit:
    """One kind of spending within one run."""

    kind: Kind
    limit: float | None
    """None means unlimited; 0 is a limit."""
    used: float = 0
    countdown_from: float = 0.5
    """A float is the share spent at which the countdown starts, an integer what then remains."""

    @property
    def remaining(self) -> float | None:
        """What is left, never below 0; None when unlimited."""
        return None if self.limit is None else max(self.limit - self.used, 0)

    @property
    def phase(self) -> Phase:
        """Silent, countdown or spent."""
        if self.limit is None:
            return Phase.SILENT
        if self.used >= self.limit:
            return Phase.SPENT
        if isinstance(self.countdown_from, int):
            return Phase.COUNTDOWN if self.limit - self.used <= self.countdown_from else Phase.SILENT
        # Exact arithmetic on the number as it was written: 0.55 of 20 is 11, not 11.000000000000002.
        start = Fraction(str(self.countdown_from)) * Fraction(str(self.limit))
        return Phase.COUNTDOWN if self.used >= start else Phase.SILENT

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

    @classmethod
    def of(cls, limits: dict[Kind, float | None], countdown_from: float = 0.5) -> "Budget":
        """Make an unspent budget; kinds that are not named are counted without a limit."""
        return cls(tuple(Limit(kind, limits.get(kind), 0, countdown_from) for kind in Kind))

    def __getitem__(self, kind: Kind) -> Limit:
        return next(limit for limit in self.limits if limit.kind is kind)

    def spend(self, amount: float = 1, kind: Kind = Kind.TOOL_CALLS) -> "Budget":
        """Return the budget after spending `amount` more of one kind.

        amount: tool calls are attempts, not successes; >= 0 [the kind's unit].
        Raises ValueError if amount < 0.
        """
        if amount < 0:
            raise ValueError(f"cannot spend a negative amount: {amount}")
        return Budget(tuple(replace(one, used=one.used + amount) if one.kind is kind else one for one in self.limits))

    @property
    def tightest(self) -> Limit:
        """The limit with the largest share spent; tool calls when nothing is limited."""
        return max(self.limits, key=lambda limit: (limit.limit is not None, limit.share))

    @property
    def phase(self) -> Phase:
        """The phase of the tightest kind."""
        return self.tightest.phase
