"""Calls an evaluator as an eval does, about an outcome that a test makes."""

import asyncio

from pydantic_evals.evaluators import EvaluationReason, EvaluatorContext

from run_specialist.evals.evaluators import RUN, CheckedRun, make
from run_specialist.record.outcome import Evidence
from tests.map_batches import outcome


def quotes(*sources, verified=True):
    """Return quotes from these places."""
    return tuple(Evidence(source, "Owls eat mice at night.", verified=verified) for source in sources)


def said(form, judgements=None, **of_outcome):
    """Return what an evaluator, as a file has it, says of an outcome; it has a quote unless the test gives others."""
    of_outcome = {"evidence": quotes("notes/owls.md:3")} | of_outcome
    context = EvaluatorContext(
        name="a case",
        inputs="What about owls?",
        metadata=None,
        expected_output=None,
        output="",
        duration=1.0,
        _span_tree=None,
        attributes={RUN: CheckedRun(outcome(**of_outcome), judgements or {})},
        metrics={},
    )
    return asyncio.run(make(form).evaluate_async(context))


def held(form, **of_outcome):
    """Return whether an evaluator holds, and its reason."""
    found = said(form, **of_outcome)
    assert isinstance(found, EvaluationReason)
    return found.value, found.reason
