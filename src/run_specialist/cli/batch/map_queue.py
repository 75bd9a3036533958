"""`specialists map --queue`: put the items into the queue of a fleet, and wait for them with `--wait`."""

import asyncio
from typing import TYPE_CHECKING

import typer

from run_specialist.cli.batch.map_options import RETRIED, BatchOptions, EachRunOptions
from run_specialist.cli.console import fail, say
from run_specialist.cli.worker_command import queue_url

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.cli.batch.map_plan import Plan
    from run_specialist.fleet.control import Control

LOOK = 2.0
"""How often a waiting command looks at the queue [s]."""


def check_queue(batch: BatchOptions) -> None:
    """Exit if options exclude each other."""
    if batch.wait and not batch.queue:
        fail("--wait waits for the workers of a fleet; it needs --queue")


def put_into_queue(plan: "Plan", runner: "Runner", each: EachRunOptions, batch: BatchOptions) -> bool:
    """Put items into the queue; return whether the fleet has worked on all, so that the answers can be read.

    Exits if the batch does not go on.
    """
    return asyncio.run(_put(queue_url(runner.store), plan, runner, each, batch))


async def _put(url: str, plan: "Plan", runner: "Runner", each: EachRunOptions, batch: BatchOptions) -> bool:
    from run_specialist.fleet.control import Control  # noqa: PLC0415 - a database library
    from run_specialist.fleet.putting import put  # noqa: PLC0415 - as above

    asked, cost = plan.asked, plan.forecast.cost_usd
    queued = await put(
        runner,
        url,
        asked.name,
        asked.given,
        question=None if asked.template is None else asked.template.text,
        model=each.model,
        settings=each.settings,
        source=asked.source.name,
        batch=batch.batch,
        cost_limit=plan.batch.cost_limit,
        typical_cost=0.0 if cost is None else cost.high,
    )
    async with Control(url) as control:
        retried = await control.retry(queued.batch_id, RETRIED[batch.retry]) if batch.retry else 0
        again = f", {retried} to retry" if batch.retry else ""
        say(f"batch {queued.batch_id}: {queued.items} items, {queued.added} new in the queue{again}")
        if not batch.wait:
            return False
        return await _ended(control, queued.batch_id)


async def _ended(control: "Control", batch_id: str) -> bool:
    """Wait until no item is in the queue; exit if answers will be missing."""
    while True:
        (status,) = await control.status(batch_id)
        if not status.queued and not status.at_work:
            break
        if status.state == "paused":
            say(f"batch {batch_id} is paused: {status.reason}")
            raise typer.Exit(4)
        await asyncio.sleep(LOOK)
    lost = {state: status.items[state] for state in ("dead", "cancelled") if status.items.get(state)}
    if lost:
        say(f"batch {batch_id}: {', '.join(f'{count} {state}' for state, count in lost.items())}")
        raise typer.Exit(4)
    return True
