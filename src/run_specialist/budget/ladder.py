"""The ladder of a landing: the rungs that are tried in order when the budget is spent. No I/O.

force     the tool choice of the next request forces `respond`; invalidates the message cache, but is unambiguous
order     the last result orders the model to call `respond`; keeps the cache
schema    the reply is constrained to JSON of the shape of `respond`
wait      no change until the model makes calls beyond the limit (not counted as a rung)
finalize  a notice beside the skipped calls asks for the answer now
none      the request allows no tool, and its text is the answer
salvage   no request: the answer is built from the last text and the results
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, assert_never

from run_specialist.budget.budget import Kind

Style = Literal["auto", "force", "order", "schema", "finalize", "none", "stop"]
"""Values of `landing` in a specialist's front matter."""


class Rung(StrEnum):
    """One way to obtain an answer at a limit."""

    FORCE = "force"
    ORDER = "order"
    SCHEMA = "schema"
    WAIT = "wait"
    FINALIZE = "finalize"
    NONE = "none"
    SALVAGE = "salvage"


def ladder(style: Style, *, forced_choice: bool) -> tuple[Rung, ...]:
    """Return the rungs to try before salvaging; at most three are counted.

    forced_choice: whether the model supports a forced tool choice; the style `force` tries it in any case.
    """
    match style:
        case "force":
            return (Rung.FORCE, Rung.ORDER, Rung.NONE)
        case "auto":
            return ladder("force" if forced_choice else "order", forced_choice=forced_choice)
        case "order":
            return (Rung.ORDER, Rung.NONE)
        case "schema":
            return (Rung.SCHEMA, Rung.NONE)
        case "finalize":
            return (Rung.WAIT, Rung.FINALIZE, Rung.NONE)
        case "none":
            return (Rung.NONE,)
        case "stop":
            return ()
        case _:
            assert_never(style)


MAX_REQUESTS = 3
"""Maximum number of answered requests in a landing."""


@dataclass(frozen=True, slots=True)
class LadderPosition:
    """The position of a run on its ladder."""

    reason: Kind
    """The limit that was reached."""
    rungs: tuple[Rung, ...]
    """The rungs to try, the current one first."""
    requests: int = 0
    """Answered requests of the landing; refused requests do not count."""

    @property
    def rung(self) -> Rung:
        """The current rung; salvage if none is left, or after MAX_REQUESTS answered requests."""
        return self.rungs[0] if self.rungs and self.requests < MAX_REQUESTS else Rung.SALVAGE

    def answered(self) -> "LadderPosition":
        """Return the position after an answered request on the current rung."""
        return self if self.rung is Rung.WAIT else replace(self, requests=self.requests + 1)

    def ignored(self) -> "LadderPosition":
        """Return the position on the next rung, after an answered request in which the model did something else."""
        return replace(self.answered(), rungs=self.rungs[1:])

    def given_up(self) -> "LadderPosition":
        """Return the position without any rungs, because no time is left for requests."""
        return replace(self, rungs=())

    def refused(self) -> "LadderPosition":
        """Return the position without forcing, which the endpoint does not support."""
        return replace(self, rungs=tuple(rung for rung in self.rungs if rung is not Rung.FORCE))
