"""Store the result of an eval with its batch, so that `specialists report EVAL` can show it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from run_specialist.evals.eval_plan import EvalPlan

_EVAL, _RESULT = "eval", "result"


def keep_result(plan: "EvalPlan", result: Mapping[str, Any], store: str | None) -> None:
    """Store a result; a result of an earlier call of the same eval is replaced.

    result: as `--json` prints it.
    store: URL of the store; None for the default one.
    Raises StoreUnusable.
    """
    from run_specialist.store.batches import BatchWriter  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - as above

    where = place(store).url
    if where == NONE:
        return
    frozen = plan.row(None).frozen
    with BatchWriter(where) as writer:
        writer.set_frozen(plan.eval_id, {**frozen, _EVAL: {**frozen[_EVAL], _RESULT: result}})


def kept_result(frozen: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the result stored with a batch; None if the batch is not an eval, or has not ended.

    frozen: the frozen values of the batch.
    """
    stored = frozen.get(_EVAL)
    found = stored.get(_RESULT) if isinstance(stored, Mapping) else None
    return found if isinstance(found, Mapping) else None
