"""The message that a judge reads: question, answer, quotes and rubric."""

import re
from collections.abc import Iterator

from run_specialist.evals.case import EvalCase
from run_specialist.record.outcome import Evidence, Outcome

_TAG = re.compile(r"</?(?:question|answer|quotes|gaps|known_right_answer|rubric)>")
_MARKS = {True: "found", False: "not found in what was read", None: "not looked up"}


def judge_question(case: EvalCase, outcome: Outcome, rubric: str) -> str:
    """Return the question for a judge about an outcome."""
    return "\n\n".join(_parts(case, outcome, rubric))


def _parts(case: EvalCase, outcome: Outcome, rubric: str) -> Iterator[str]:
    yield _part("question", case.question)
    yield _part("answer", outcome.answer)
    if outcome.evidence:
        yield _part("quotes", "\n".join(_quote(one) for one in outcome.evidence))
    if outcome.gaps:
        yield _part("gaps", "\n".join(f"- {gap}" for gap in outcome.gaps))
    if case.expected_output is not None:
        yield _part("known_right_answer", str(case.expected_output))
    yield _part("rubric", rubric)
    yield "Does the answer meet the rubric?"


def _part(name: str, text: str) -> str:
    """Return a part between its tags; tags inside the text are changed, so that none can end or begin a part."""
    return f"<{name}>\n{_TAG.sub(_without_bracket, text)}\n</{name}>"


def _without_bracket(tag: re.Match[str]) -> str:
    return f"[{tag[0][1:-1]}]"


def _quote(quote: Evidence) -> str:
    return f"- {quote.source} ({_MARKS[quote.verified]}): {quote.quote}"
