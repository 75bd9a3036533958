"""How a run comes down when its budget is spent: a ladder of rungs, tried in order. Pure values.

force     the next request's tool choice names `respond`; costs the messages cache, cannot be misunderstood
order     nothing changes but the last result, which says that only `respond` will be heard; keeps the cache
wait      nothing is said until the model asks for calls beyond the limit (not counted as a rung)
finalize  beside the skipped calls stands a notice to answer now
none      no tool may be called, the text is the answer
salvage   no request at all: an answer is built from the last text and the results
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, assert_never

from run_specialist.budget.budget import Kind

Style = Literal["auto", "force", "order", "finalize", "none", "stop"]
"""What the specialist's file says under `landing`."""


class Rung(StrEnum):
    """One way to get an answer at the limit."""

    FORCE = "force"
    ORDER = "order"
    WAIT = "wait"
    FINALIZE = "finalize"
    NONE = "none"
    SALVAGE = "salvage"


def ladder(style: Style, *, forced_choice: bool) -> tuple[Rung, ...]:
    """Return the rungs to try before salvaging, at most three that are counted.

    forced_choice: whether the model takes a forced tool choice; `force` tries it all the same.
    """
    match style:
        case "force":
            return (Rung.FORCE, Rung.ORDER, Rung.NONE)
        case "auto":
            return ladder("force" if forced_choice else "order", forced_choice=forced_choice)
        case "order":
            return (Rung.ORDER, Rung.NONE)
        case "finalize":
            return (Rung.WAIT, Rung.FINALIZE, Rung.NONE)
        case "none":
            return (Rung.NONE,)
        case "stop":
            return ()
        case _:
            assert_never(style)


MOST_REQUESTS = 3
"""Landing requests that are answered, whatever becomes of them."""


@dataclass(frozen=True, slots=True)
class LadderPosition:
    """Where a run stands on its ladder."""

    reason: Kind
    """The limit that was reached."""
    rungs: tuple[Rung, ...]
    """What is still to be tried, the current rung first."""
    requests: int = 0
    """Landing requests that were answered; a refused one is none."""

    @property
    def rung(self) -> Rung:
        """The current rung; salvage when none is left, or as many requests were answered as there may be."""
        return self.rungs[0] if self.rungs and self.requests < MOST_REQUESTS else Rung.SALVAGE

    def answered(self) -> "LadderPosition":
        """Count an answered request of the current rung."""
        return self if self.rung is Rung.WAIT else replace(self, requests=self.requests + 1)

    def ignored(self) -> "LadderPosition":
        """Count the request and go on to the next rung, because the model did something else."""
        return replace(self.answered(), rungs=self.rungs[1:])

    def given_up(self) -> "LadderPosition":
        """Ask no more, because there is no time for it."""
        return replace(self, rungs=())

    def refused(self) -> "LadderPosition":
        """Go on without forcing, because the endpoint does not take it."""
        return replace(self, rungs=tuple(rung for rung in self.rungs if rung is not Rung.FORCE))
