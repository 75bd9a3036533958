"""The parts of a run that evaluators read: its outcome, and the text of its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from run_specialist.record.outcome import Evidence, Outcome

if TYPE_CHECKING:
    from pydantic_evals.evaluators import EvaluatorContext

RUN = "run"
"""Name of the attribute of the context that holds the `CheckedRun`."""


@dataclass(frozen=True)
class CheckedRun:
    """An ended run, with the verdicts of judges."""

    outcome: Outcome
    judgements: "Mapping[str, Judgement]" = field(default_factory=dict)
    """Verdicts by the key of the judge, see `Judge.key`."""

    @property
    def text(self) -> str:
        """The answer and its quotes, on one line, for searches that ignore case and white space."""
        return plain("\n".join([self.outcome.answer, *(one.quote for one in self.outcome.evidence)]))

    @property
    def verified(self) -> tuple[Evidence, ...]:
        """The quotes that were found in the results of the run."""
        return tuple(one for one in self.outcome.evidence if one.verified)


@dataclass(frozen=True)
class Judgement:
    """The verdict of a judge on a run."""

    passed: bool | None
    """None if the judge gave no verdict."""
    reason: str
    """One line."""
    run_id: str | None = None
    """The run of the judge; None if none began."""
    cost_usd: float | None = 0.0
    """None if the price is unknown."""


def checked_run(context: "EvaluatorContext[Any, Any, Any]") -> CheckedRun:
    """Return the run for which an evaluator is called.

    Raises ValueError outside an eval of this package.
    """
    run = context.attributes.get(RUN)
    if run is None:
        raise ValueError("this evaluator needs a run of a specialist; use it with `specialists eval`")
    return cast("CheckedRun", run)


def plain(text: str) -> str:
    """Return a text in lower case, with one blank for each run of white space."""
    return " ".join(text.split()).casefold()
