"""Evaluators of how a run ended."""

from dataclasses import dataclass
from typing import get_args

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from run_specialist.evals.evaluators.checked_run import checked_run
from run_specialist.evals.evaluators.given import flag, joined, texts
from run_specialist.record import outcome

_STATUSES = get_args(outcome.Status)


@dataclass(repr=False)
class Status(Evaluator[object, object, object]):
    """Whether the run ended with one of these statuses."""

    statuses: str | list[str]

    def __post_init__(self) -> None:
        for one in texts(self.statuses, "a status"):
            if one not in _STATUSES:
                raise ValueError(f"{one!r} is not a status; expected one of {', '.join(_STATUSES)}")

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether the status is one of those."""
        wanted, status = texts(self.statuses, "a status"), checked_run(ctx).outcome.status
        reason = None if status in wanted else f"the run {status}, expected {joined(wanted)}"
        return EvaluationReason(value=reason is None, reason=reason)


@dataclass(repr=False)
class Landed(Evaluator[object, object, object]):
    """Whether a limit ended the run."""

    landed: bool = True

    def __post_init__(self) -> None:
        flag(self.landed)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether the run landed, or did not, as expected."""
        landing = checked_run(ctx).outcome.landing
        if (landing is not None) is self.landed:
            return EvaluationReason(value=True)
        reason = "no limit was reached" if landing is None else f"landed at the limit of {landing.reason}"
        return EvaluationReason(value=False, reason=reason)
