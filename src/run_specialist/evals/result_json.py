"""Convert the results of an eval to JSON values."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from run_specialist.evals.comparison import Comparison
from run_specialist.evals.eval_results import CaseRun, EvalResult
from run_specialist.evals.verdict_text import notes, verdict_text


def as_json(result: EvalResult, compared: Sequence[Comparison] = ()) -> dict[str, Any]:
    """Return everything known about an eval, with the score of each run, and the comparisons of its variants."""
    return {
        "eval": result.eval_id,
        "specialist": result.specialist,
        "cases": list(result.cases),
        "variants": [{**asdict(one), "settings": dict(one.settings)} for one in result.variants],
        "runs": [_run(one) for one in result.runs],
        "comparison": [comparison_json(one) for one in compared],
    }


def _run(run: CaseRun) -> dict[str, Any]:
    values = asdict(run)
    values["checks"] = [asdict(one) for one in run.checks]
    return {**values, "passed": run.passed, "score": round(run.score, 6)}


def comparison_json(one: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values, with its verdict in words."""
    values = asdict(one)
    both = values.pop("paired")
    pairs = [
        {**pair, "difference": of.difference} for pair, of in zip(both.pop("pairs"), one.paired.pairs, strict=True)
    ]
    return {**values, **both, "cases": one.cases, "pairs": pairs, "text": verdict_text(one), "notes": notes(one)}
