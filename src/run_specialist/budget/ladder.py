"""The ladder of a landing: the rungs that are tried in order when the budget is spent. No I/O.

force     the tool choice of the next request forces `respond`; invalidates the message cache, but is unambiguous
order     the last result orders the model to call `respond`; keeps the cache
schema    the reply is constrained to JSON of the shape of `respond`
wait      no change until the model makes calls beyond the limit (not counted as a rung)
finalize  a notice beside the skipped calls asks for the answer now
none      the request allows no tool, and its text is the answer
salvage   no request: the answer is built from the last text and the results
"""

from collections.abc import Collection, Mapping, Sequence
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


_BY_CAPABILITY: Mapping[tuple[bool, bool, bool], tuple[Rung, ...]] = {
    # (forced choice, schema, schema first)
    (True, True, False): (Rung.FORCE, Rung.SCHEMA, Rung.NONE),
    (True, True, True): (Rung.SCHEMA, Rung.FORCE, Rung.NONE),
    (False, True, False): (Rung.ORDER, Rung.SCHEMA, Rung.NONE),
    (False, True, True): (Rung.SCHEMA, Rung.ORDER, Rung.NONE),
    (True, False, False): (Rung.FORCE, Rung.ORDER, Rung.NONE),
    (True, False, True): (Rung.FORCE, Rung.ORDER, Rung.NONE),
    (False, False, False): (Rung.ORDER, Rung.NONE),
    (False, False, True): (Rung.ORDER, Rung.NONE),
}
"""The rungs of the style `auto`, by what the endpoint supports."""


def ladder(
    style: Style,
    *,
    forced_choice: bool,
    schema: bool = False,
    schema_first: bool = False,
    refused: Collection[Rung] = (),
) -> tuple[Rung, ...]:
    """Return the rungs to try before salvaging; at most three are counted.

    forced_choice: whether the model supports a forced tool choice; the style `force` tries it in any case.
    schema: whether the endpoint may constrain a reply to a schema.
    schema_first: whether a schema is more reliable there than a forced choice.
    refused: rungs that the endpoint has refused; others take their place.
    """
    schema = schema and Rung.SCHEMA not in refused
    may_force = Rung.FORCE not in refused
    match style:
        case "auto":
            rungs = _BY_CAPABILITY[forced_choice and may_force, schema, schema_first]
        case "force":
            rungs = _BY_CAPABILITY[may_force, schema, False]
        case "order":
            rungs = _BY_CAPABILITY[False, schema, False]
        case "schema" if schema:
            rungs = (Rung.SCHEMA, Rung.NONE)
        case "schema":
            rungs = _BY_CAPABILITY[forced_choice and may_force, False, False]
        case "finalize":
            rungs = (Rung.WAIT, Rung.FINALIZE, Rung.NONE)
        case "none":
            # Without this rung the style would have none, so an order is sent to get an answer.
            rungs = (Rung.ORDER,) if Rung.NONE in refused else (Rung.NONE,)
        case "stop":
            rungs = ()
        case _:
            assert_never(style)
    return tuple(rung for rung in rungs if rung not in refused)


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
    tried: tuple[Rung, ...] = ()
    """The rungs that the model did not follow, in order."""

    @property
    def rung(self) -> Rung:
        """The current rung; salvage if none is left, or after MAX_REQUESTS answered requests."""
        return self.rungs[0] if self.rungs and self.requests < MAX_REQUESTS else Rung.SALVAGE

    def answered(self) -> "LadderPosition":
        """Return the position after an answered request on the current rung."""
        return self if self.rung is Rung.WAIT else replace(self, requests=self.requests + 1)

    def ignored(self) -> "LadderPosition":
        """Return the position on the next rung, after an answered request in which the model did something else."""
        return replace(self.answered(), rungs=self.rungs[1:], tried=(*self.tried, *self.rungs[:1]))

    def given_up(self) -> "LadderPosition":
        """Return the position without any rungs, because no time is left for requests."""
        return replace(self, rungs=())

    def refused(self, rungs: Sequence[Rung]) -> "LadderPosition":
        """Return the position on another ladder, because the endpoint refused the current rung.

        rungs: a ladder without the refused rung; those that were tried are omitted.
        """
        return replace(self, rungs=tuple(rung for rung in rungs if rung not in self.tried))

    def resumed(self, rung: Rung) -> "LadderPosition":
        """Return the position on the rung that a reply from before an interruption answers; all others follow."""
        return replace(self, rungs=(rung, *(other for other in self.rungs if other is not rung)))
