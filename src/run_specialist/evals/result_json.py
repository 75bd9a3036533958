"""The results of an eval in JSON values."""

from dataclasses import asdict
from typing import Any

from run_specialist.evals.results import CaseRun, EvalResult


def as_json(result: EvalResult) -> dict[str, Any]:
    """Return all that is known of an eval, with the score of each run."""
    return {
        "eval": result.eval_id,
        "specialist": result.specialist,
        "cases": list(result.cases),
        "variants": [{**asdict(one), "settings": dict(one.settings)} for one in result.variants],
        "runs": [_run(one) for one in result.runs],
    }


def _run(run: CaseRun) -> dict[str, Any]:
    values = asdict(run)
    values["checks"] = [asdict(one) for one in run.checks]
    return {**values, "passed": run.passed, "score": round(run.score, 6)}
