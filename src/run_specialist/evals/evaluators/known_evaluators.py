"""The evaluators that a file can name: those of this package, and those of pydantic-evals."""

import re
from functools import cache
from typing import Any

from pydantic_evals import evaluators
from pydantic_evals.evaluators import Evaluator, EvaluatorSpec

from run_specialist.evals.evaluators.answers import Contains, Gap, OutputMatches, Regex
from run_specialist.evals.evaluators.costs import CallsUnder, CostUnder, SecondsUnder, TokensUnder
from run_specialist.evals.evaluators.endings import Landed, Status
from run_specialist.evals.evaluators.judging import Judge
from run_specialist.evals.evaluators.quote_evaluators import CitesPath, QuotesVerified

_MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_UNKNOWN = re.compile(r"got an unexpected keyword argument '(.+?)'")

AnyEvaluator = Evaluator[Any, Any, Any]

OWN: tuple[type[AnyEvaluator], ...] = (
    CallsUnder,
    CitesPath,
    Contains,
    CostUnder,
    Gap,
    Judge,
    Landed,
    OutputMatches,
    QuotesVerified,
    Regex,
    SecondsUnder,
    Status,
    TokensUnder,
)
"""The evaluators of this package; they take precedence over those of pydantic-evals with the same name (`Contains`)."""


UNBILLED = ("GEval", "LLMJudge")
"""Evaluators of pydantic-evals that call a model themselves, past limits, bill and store; `Judge` replaces them."""


@cache
def by_name() -> dict[str, type[AnyEvaluator]]:
    """Return all evaluators by name; those of this package take precedence."""
    named = {one.get_serialization_name(): one for one in OWN}
    for name in {*evaluators.__all__} - {*UNBILLED}:
        found = getattr(evaluators, name)
        if isinstance(found, type) and issubclass(found, Evaluator) and found is not Evaluator:
            named.setdefault(name, found)
    return named


def make(given: object) -> AnyEvaluator:
    """Return an evaluator from its entry in a file; raises ValueError."""
    spec = EvaluatorSpec.model_validate(given)
    if spec.name == "HasMatchingSpan" and "name_matches_regex" in str((spec.args, spec.kwargs)):
        raise ValueError("name_matches_regex is not supported, because it may take for ever; use name_contains")
    try:
        return by_name()[spec.name](*spec.args, **spec.kwargs)
    except TypeError as error:
        raise ValueError(_arguments(str(error))) from None


def _arguments(text: str) -> str:
    """Return the error of a call, worded for the author of a file."""
    text = text.partition("() ")[2] or text
    if missing := _MISSING.fullmatch(text):
        return f"{missing[1].replace(chr(39), '')} {'are' if ' and ' in missing[1] else 'is'} missing"
    if unknown := _UNKNOWN.match(text):
        return f"has no argument {unknown[1]}"
    return text
