"""Check an ended run: call the evaluators of its case, and record their results."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
from pydantic_evals.otel import SpanTree, SpanTreeRecordingError

from run_specialist.batch.done import Done
from run_specialist.evals.eval_plan import PlannedRun
from run_specialist.evals.eval_results import CaseRun, Check
from run_specialist.evals.evaluators.checked_run import RUN, CheckedRun, Judgement
from run_specialist.evals.evaluators.given import short
from run_specialist.evals.run_spans import span_tree
from run_specialist.record.outcome import Outcome

if TYPE_CHECKING:
    from run_specialist.store.run_steps import RunSteps

Steps = Callable[[str], "RunSteps | None"]
"""Returns the requests and calls of a stored run; None if it is not stored."""

LONGEST_REASON = 300
"""Maximum length of a reason [characters]."""


class StoredContext(EvaluatorContext[Any, Any, Any]):
    """The context of a run; its spans are loaded from the store when they are needed."""

    steps: Steps

    @property
    def span_tree(self) -> SpanTree:
        """The spans of the run; raises SpanTreeRecordingError if the run is not stored."""
        if isinstance(self._span_tree, SpanTreeRecordingError):
            stored = self.steps(checked(self).outcome.run_id)
            if stored is None:
                raise self._span_tree
            self._span_tree = span_tree(stored)
        return self._span_tree


def checked(context: EvaluatorContext[Any, Any, Any]) -> CheckedRun:
    """Return the run of a context."""
    run: CheckedRun = context.attributes[RUN]
    return run


async def scored(planned: PlannedRun, done: Done | None, judgements: Mapping[str, Judgement], steps: Steps) -> CaseRun:
    """Return a run with its checks.

    done: the end of its item; None if it was not run.
    judgements: by the key of the judge.
    """
    case, variant = planned.case, planned.subject.variant
    outcome = None if done is None else done.outcome
    if outcome is None:
        error = None if done is None else done.error
        return CaseRun(case.name, variant.name, planned.repeat, None, "not run", error=error)
    context = _context(planned, outcome, judgements, steps)
    checks: list[Check] = []
    errors = [outcome.error] if outcome.error else []
    for evaluator in case.evaluators if outcome.status != "aborted" else ():
        try:
            checks += _checks(evaluator, await evaluator.evaluate_async(context))
        except Exception as error:  # noqa: BLE001 - an evaluator may come from anywhere
            errors.append(f"{_name(evaluator)}: {short(str(error) or type(error).__name__, LONGEST_REASON)}")
    return CaseRun(
        case.name,
        variant.name,
        planned.repeat,
        outcome.run_id,
        outcome.status,
        tuple(_distinct(checks)),
        outcome.tool_calls.used,
        outcome.usage.total_tokens,
        outcome.cost_usd,
        _sum(one.cost_usd for one in judgements.values()),
        outcome.duration_s,
        "; ".join(errors) or None,
        len(errors) - bool(outcome.error),
    )


def _context(planned: PlannedRun, outcome: Outcome, judgements: Mapping[str, Judgement], steps: Steps) -> StoredContext:
    usage = outcome.usage
    metrics: dict[str, int | float] = {
        "input_tokens": usage.total_tokens - usage.output_tokens,
        "output_tokens": usage.output_tokens,
    }
    context = StoredContext(
        name=planned.case.name,
        inputs=planned.case.question,
        metadata=planned.case.metadata,
        expected_output=planned.case.expected_output,
        # What other evaluators compare: the structured answer, or the text.
        output=outcome.answer if outcome.output is None else outcome.output,
        duration=outcome.duration_s,
        _span_tree=SpanTreeRecordingError("the run is not stored, so there are no spans; use a store"),
        attributes={RUN: CheckedRun(outcome, judgements)},
        metrics=metrics if outcome.cost_usd is None else {**metrics, "cost": outcome.cost_usd},
    )
    context.steps = steps
    return context


def _checks(evaluator: Evaluator[Any, Any, Any], found: Any) -> Iterator[Check]:  # noqa: ANN401 - `EvaluatorOutput`
    if not isinstance(found, Mapping):
        found = {evaluator.get_default_evaluation_name(): found}
    for name, one in found.items():
        value, reason = (one.value, one.reason) if isinstance(one, EvaluationReason) else (one, None)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a score")
        line = None if reason is None else short(reason, LONGEST_REASON)
        yield Check(f"{name}\n{_looks_for(evaluator)}", value, line)


def _distinct(checks: list[Check]) -> Iterator[Check]:
    """Return a distinct name for each check: its evaluator, with the argument if several have the same name."""
    names = [one.name.partition("\n")[0] for one in checks]
    for one in checks:
        name, _, looks_for = one.name.partition("\n")
        yield Check(f"{name}: {looks_for}" if names.count(name) > 1 and looks_for else name, one.value, one.reason)


def _looks_for(evaluator: Evaluator[Any, Any, Any]) -> str:
    return short(", ".join(str(one) for one in evaluator.build_serialization_arguments().values()), 60)


def _name(evaluator: Evaluator[Any, Any, Any]) -> str:
    return str(evaluator.get_default_evaluation_name())


def _sum(costs: Any) -> float | None:  # noqa: ANN401 - numbers or None
    total = 0.0
    for one in costs:
        if one is None:
            return None
        total += one
    return total
