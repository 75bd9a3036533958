"""`specialists map --queue`: put the items into the queue of a fleet, and wait for them with `--wait`."""

import asyncio
from typing import TYPE_CHECKING

import typer

from run_specialist.cli.batch.map_options import BatchOptions, EachRunOptions, MoneyOptions
from run_specialist.cli.console import fail, say
from run_specialist.cli.worker_command import queue_url

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.cli.batch.map_items import Asked
    from run_specialist.fleet.control import Control

LOOK = 2.0
"""How often a waiting command looks at the queue [s]."""


def check_queue(batch: BatchOptions, money: MoneyOptions) -> None:
    """Exit if options exclude each other."""
    if batch.wait and not batch.queue:
        fail("--wait waits for the workers of a fleet; it needs --queue")
    if not batch.queue:
        return
    if money.limit is not None:
        fail("--cost-limit counts on one machine; with --queue, limit each run: cost_limit in the specialist's file")
    if batch.retry:
        fail("with --queue, retry items by `specialists fleet retry`")


def put_into_queue(asked: "Asked", runner: "Runner", each: EachRunOptions, batch: BatchOptions) -> bool:
    """Put items into the queue; return whether the fleet has worked on all, so that the answers can be read.

    Exits if the batch does not go on.
    """
    url = queue_url(runner.store)
    return asyncio.run(_put(url, asked, runner, each, batch))


async def _put(url: str, asked: "Asked", runner: "Runner", each: EachRunOptions, batch: BatchOptions) -> bool:
    from run_specialist.fleet.control import Control  # noqa: PLC0415 - a database library
    from run_specialist.fleet.putting import put  # noqa: PLC0415 - as above

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
    )
    say(f"batch {queued.batch_id}: {queued.items} items, {queued.added} new in the queue")
    if not batch.wait:
        return False
    async with Control(url) as control:
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
