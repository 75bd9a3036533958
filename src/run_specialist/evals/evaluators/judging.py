"""The evaluator that asks another specialist."""

import hashlib
from dataclasses import dataclass

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from run_specialist.evals.evaluators.checked_run import checked_run

ANSWER_JUDGE = "answer-judge"
"""The judge included in the package."""


@dataclass(repr=False)
class Judge(Evaluator[object, object, object]):
    """Whether a judge, which is another specialist, finds that the answer meets a rubric."""

    rubric: str
    specialist: str = ANSWER_JUDGE

    def __post_init__(self) -> None:
        given: dict[str, object] = {"rubric": self.rubric, "specialist": self.specialist}
        for name, value in given.items():
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{name} must be a text, got {value!r}")

    @property
    def key(self) -> str:
        """A key that is the same for the same judge and rubric."""
        return hashlib.sha256(f"{self.specialist}\0{self.rubric}".encode()).hexdigest()[:16]

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return the verdict; raises ValueError if there is none."""
        judgement = checked_run(ctx).judgements.get(self.key)
        if judgement is None:
            raise ValueError(f"{self.specialist} was not asked")
        if judgement.passed is None:
            raise ValueError(judgement.reason)
        return EvaluationReason(value=judgement.passed, reason=judgement.reason)
