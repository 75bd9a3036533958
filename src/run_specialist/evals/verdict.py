"""Read the verdict of a judge from its outcome."""

from collections.abc import Mapping
from typing import Any

from run_specialist.evals.evaluators.checked_run import Judgement
from run_specialist.evals.evaluators.given import short
from run_specialist.record.outcome import Outcome

LONGEST = 300
"""Maximum length of a reason [characters]."""
KEYS = ("verdict", "passed", "pass")
"""Fields of a structured answer that may hold the verdict."""
_VERDICTS = {"pass": True, "passed": True, "yes": True, "true": True, "fail": False, "failed": False, "no": False}
_VERDICTS["false"] = False


def judgement(outcome: Outcome) -> Judgement:
    """Return the verdict of a judge from its structured answer: `verdict`, `pass` or `fail`, and `reason`."""
    output = outcome.output if isinstance(outcome.output, Mapping) else {}
    verdict = next((one for key in KEYS if (one := _truth(output.get(key))) is not None), None)
    if outcome.status in {"failed", "aborted"} or verdict is None:
        error = outcome.error or "its structured answer has no field `verdict` with `pass` or `fail`"
        return Judgement(
            None, short(f"{outcome.specialist} gave no verdict: {error}", LONGEST), outcome.run_id, outcome.cost_usd
        )
    reason = short(str(output.get("reason") or outcome.answer), LONGEST)
    return Judgement(verdict, reason, outcome.run_id, outcome.cost_usd)


def _truth(value: Any) -> bool | None:  # noqa: ANN401 - a JSON value
    if isinstance(value, bool):
        return value
    return _VERDICTS.get(value.strip().lower()) if isinstance(value, str) else None
