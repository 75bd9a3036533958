"""Plan a batch for `specialists map`: read the store and make a forecast."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from run_specialist.batch.forecast import forecast
from run_specialist.cli.batch.map_items import MapRequest
from run_specialist.cli.batch.map_options import RETRIED
from run_specialist.cli.batch.map_past import known_runs
from run_specialist.cli.batch.map_plan import MapPlan
from run_specialist.cli.batch.shared_options import EachRunOptions
from run_specialist.cli.console import fail

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner


def planned(
    asked: MapRequest,
    runner: "Runner",
    each: EachRunOptions,
    bounds: dict[str, Any],
    retried: Sequence[str],
    *,
    is_over: bool = False,
) -> MapPlan:
    """Return a batch and its plan; sends nothing.

    each: options of each run.
    bounds: limits of the batch, as arguments of `Runner.map`.
    retried: statuses of earlier runs that are resumed.
    is_over: a fleet has finished the batch; only its outcomes are read.
    """
    settings = each.settings
    with known_runs(runner.store) as known:
        if not known.are_stored and [*retried] != [*RETRIED[None]]:
            fail("--retry needs stored runs; name a store with --store")
        past = known.past(runner, asked.name, settings, each.model)
        cost = forecast(past, None).cost_usd
        typical = 0.0 if cost is None else cost.high
        batch = runner.map(
            asked.name,
            asked.given,
            None if asked.template is None else asked.template.text,
            source=asked.source.name,
            retry=retried,
            typical_cost=typical,
            **bounds,
            **settings,
        )
        if is_over:
            batch.only_read()
        earlier = known.earlier(batch.id, retried)
    count = asked.count
    ended = 0 if count is None else earlier.count(asked.items())
    return MapPlan(
        batch=batch,
        asked=asked,
        earlier=ended,
        forecast=forecast(past, None if count is None else count - ended),
        at_once=bounds["at_once"],
        spent=earlier.cost_usd,
    )
