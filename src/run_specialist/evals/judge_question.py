"""The message that a judge reads: question, answer, quotes and rubric."""

from collections.abc import Iterator

from run_specialist.evals.case import EvalCase
from run_specialist.record.outcome import Evidence, Outcome

_MARKS = {True: "found", False: "not found in what was read", None: "not looked up"}


def judge_question(case: EvalCase, outcome: Outcome, rubric: str) -> str:
    """Return what a judge is asked about an outcome."""
    return "\n\n".join(_parts(case, outcome, rubric))


def _parts(case: EvalCase, outcome: Outcome, rubric: str) -> Iterator[str]:
    yield f"<question>\n{case.question}\n</question>"
    yield f"<answer>\n{outcome.answer}\n</answer>"
    if outcome.evidence:
        quotes = "\n".join(_quote(one) for one in outcome.evidence)
        yield f"<quotes>\n{quotes}\n</quotes>"
    if outcome.gaps:
        gaps = "\n".join(f"- {gap}" for gap in outcome.gaps)
        yield f"<gaps>\n{gaps}\n</gaps>"
    if case.expected_output is not None:
        yield f"<known_right_answer>\n{case.expected_output}\n</known_right_answer>"
    yield f"<rubric>\n{rubric}\n</rubric>"
    yield "Does the answer meet the rubric?"


def _quote(quote: Evidence) -> str:
    return f"- {quote.source} ({_MARKS[quote.verified]}): {quote.quote}"
