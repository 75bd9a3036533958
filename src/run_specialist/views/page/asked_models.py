"""The models that a run used, if there were several."""

from collections.abc import Iterator
from typing import Any

from run_specialist.budget import units
from run_specialist.record.outcome import AskedModel
from run_specialist.store.stored import StoredRun
from run_specialist.views.page.formats import counted


def models(run: StoredRun) -> list[dict[str, Any]]:
    """Return the models in order, each with its turns and their cost; empty if there is only one."""
    return [
        {
            "model": one.model,
            "turns": one.turns,
            "tokens": one.usage.total_tokens,
            "cost_usd": one.cost_usd,
            "failure": one.failure,
        }
        for one in _several(run)
    ]


def sentences(run: StoredRun) -> Iterator[str]:
    """Yield a sentence for each model about its requests."""
    for one in _several(run):
        if not one.turns:
            yield f"{one.model} answered no request."
            continue
        last = one.since_turn + one.turns - 1
        turns = f"Turn {last} was" if one.turns == 1 else f"Turns {one.since_turn} to {last} were"
        cost = "price unknown" if one.cost_usd is None else units.dollars(one.cost_usd)
        yield f"{turns} requested from {one.model}: {counted(one.usage.total_tokens, 'token')}, {cost}."


def _several(run: StoredRun) -> tuple[AskedModel, ...]:
    asked = run.snapshot.models if run.snapshot else ()
    return asked if len(asked) > 1 else ()
