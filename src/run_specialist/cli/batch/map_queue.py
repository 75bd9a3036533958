"""`specialists map --queue`: put the items into the queue of a fleet; with `--wait`, wait until they are done."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.map_options import RETRIED, AnswerOptions, BatchOptions
from run_specialist.cli.batch.map_units import counted
from run_specialist.cli.batch.shared_options import EachRunOptions
from run_specialist.cli.console import fail, print_json, say
from run_specialist.cli.worker_command import queue_url

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.cli.batch.map_plan import MapPlan
    from run_specialist.fleet.control import BatchStatus, Control

LOOK = 2.0
"""Interval at which a waiting command polls the queue [s]."""
SECONDS = 15.0
"""Interval of the progress lines, which are printed only after a change [s]."""
WITHOUT_ANSWER = ("dead", "cancelled")
"""States of items that a fleet has left without an outcome."""


@dataclass(frozen=True)
class FleetResult:
    """A batch that a fleet has finished."""

    lost: str = ""
    """Counts of the items without an outcome, as text; empty = none."""
    limit: str = ""
    """Why the batch ended at its cost limit; empty = it did not."""


def check_queue(batch: BatchOptions, items: str | None) -> None:
    """Exit if options exclude each other."""
    if batch.wait and not batch.queue:
        fail("--wait waits for the workers of a fleet; it needs --queue")
    if batch.priority is not None and not batch.queue:
        fail("--priority orders the batches in the queue of a fleet; it needs --queue")
    if batch.wait and items == "-":
        fail("--wait reads the items a second time, with their answers; name a file instead of standard input")


def put_into_queue(
    plan: "MapPlan", runner: "Runner", each: EachRunOptions, batch: BatchOptions, answers: AnswerOptions, at_once: int
) -> FleetResult | None:
    """Put items into the queue, and wait for the fleet with `--wait`; return None without it.

    at_once: how many items the whole fleet may work on at the same time; 0 = any number.
    Exits if the batch is paused.
    """
    return asyncio.run(_put(queue_url(runner.store), plan, runner, each, batch, answers, at_once))


async def _put(
    url: str,
    plan: "MapPlan",
    runner: "Runner",
    each: EachRunOptions,
    batch: BatchOptions,
    answers: AnswerOptions,
    at_once: int,
) -> FleetResult | None:
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
        at_once=at_once,
        cost_limit=plan.batch.cost_limit,
        require_model=each.require_model or None,
        priority=batch.priority,
        typical_cost=0.0 if cost is None else cost.high,
    )
    async with Control(url) as control:
        retried = await control.retry(queued.batch_id, RETRIED[batch.retry]) if batch.retry else 0
        again = f", {retried} to retry" if batch.retry else ""
        say(f"batch {queued.batch_id}: {counted(queued.items)}, {queued.added:,} new in the queue{again}")
        if queued.kept_model is not None:
            say(f"its runs keep the model of the first call, {queued.kept_model}")
        if batch.wait:
            return await _ended(control, queued.batch_id, quiet=answers.quiet)
    if answers.json_:
        print_json({"batch": queued.batch_id, "items": queued.items, "added": queued.added, "retried": retried})
    elif not answers.quiet:
        say(f"`specialists fleet status {queued.batch_id}` shows them; the same command with --wait writes the answers")
    return None


async def _ended(control: "Control", batch_id: str, *, quiet: bool) -> FleetResult:
    """Wait until the queue has no more items of the batch, also while the database is away; exit if it is paused."""
    from run_specialist.fleet.queue_connection import QueueAway  # noqa: PLC0415 - a database library

    said, waited = "", SECONDS
    is_away = False
    while True:
        try:
            (status,) = await control.status(batch_id)
        except QueueAway as away:
            if not is_away:
                say(f"the database is unavailable, waiting: {away}")
            is_away = True
            await asyncio.sleep(LOOK)
            continue
        if is_away:
            say("the database is available again")
            is_away = False
        if not status.queued and not status.at_work:
            break
        if status.state == "paused":
            say(f"batch {batch_id} is paused: {status.reason}; to continue: specialists fleet resume {batch_id}")
            raise typer.Exit(4)
        if waited >= SECONDS and (line := _state(status)) != said and not quiet:
            say(line)
            said, waited = line, 0.0
        await asyncio.sleep(LOOK)
        waited += LOOK
    lost = (f"{count:,} {state}" for state in WITHOUT_ANSWER if (count := status.items.get(state)))
    limit = (status.reason or "") if status.state == "ended" else ""
    return FleetResult(", ".join(lost), limit)


def _state(status: "BatchStatus") -> str:
    """Return the progress of the fleet in one line."""
    total, rest = sum(status.items.values()), status.queued + status.at_work
    at_work = f"{status.at_work:,} at work, {counted(status.workers, 'worker')}"
    if not status.workers:
        at_work = "no worker has any now; `specialists worker` starts one"
    parts = [f"{total - rest:,} of {counted(total)} done", at_work]
    if status.cost_usd:
        parts.append(dollars(status.cost_usd))
    if status.reason is not None:
        parts.append(f"waits: {status.reason}")
    return " · ".join(parts)
