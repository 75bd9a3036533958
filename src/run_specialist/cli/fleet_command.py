"""The commands `specialists fleet ...`: the batches in the queue."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.command_list import CommandList
from run_specialist.cli.console import guarded, print_json, print_line, say
from run_specialist.cli.flags import Json, StoreUrl
from run_specialist.cli.printed_files import one_line
from run_specialist.cli.table import print_table
from run_specialist.cli.worker_command import queue_url

if TYPE_CHECKING:
    from run_specialist.fleet.control import BatchStatus, Control

app = typer.Typer(
    cls=CommandList,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Manage the batches in the queue of a fleet.",
)
_T = TypeVar("_T")

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="Id of a batch.")]
_DONE = ("answered", "landed", "partial")
_FAILED = ("failed", "aborted", "dead", "cancelled")


@app.command()
def setup(store: StoreUrl = None) -> None:
    """Create or upgrade the tables of the queue; repeating it has no effect."""
    _with_queue(store, lambda control: control.set_up())
    say("the queue is ready")


@app.command()
def status(
    batch: Annotated[str | None, typer.Argument(metavar="BATCH", help="Id of a batch.  [default: all]")] = None,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """Show the batches in the queue: their items by state, and the number of workers."""
    found = _with_queue(store, lambda control: control.status(batch))
    if json_:
        print_json({"batches": [asdict(one) for one in found]})
        return
    if not found:
        say("no batch is in the queue")
        return
    rows = [_row(one) for one in found]
    head = ("BATCH", "STATE", "ITEMS", "DONE", "FAILED", "AT WORK", "QUEUED", "WORKERS", "COST", "SPECIALIST")
    print_table(head, rows)
    for one in found:
        for line in _remarks(one):
            print_line(f"{one.batch_id}: {line}")


@app.command()
def pause(batch: BatchId, store: StoreUrl = None) -> None:
    """Pause a batch: no more of its items start, and items in progress continue."""
    _with_queue(store, lambda control: control.pause(batch))
    say(f"batch {batch} is paused")


@app.command()
def resume(batch: BatchId, store: StoreUrl = None) -> None:
    """Resume a paused batch: workers take its items again."""
    _with_queue(store, lambda control: control.resume(batch))
    say(f"batch {batch} is resumed")


@app.command()
def cancel(batch: BatchId, store: StoreUrl = None) -> None:
    """End a batch: items in the queue are not run, and items in progress end after their current turn."""
    count = _with_queue(store, lambda control: control.cancel(batch))
    say(f"{count} item{'' if count == 1 else 's'} removed from the queue")


@app.command()
def retry(
    batch: BatchId,
    partial: Annotated[bool, typer.Option("--partial", help="Also resume runs with partial answers.")] = False,
    store: StoreUrl = None,
) -> None:
    """Put failed items into the queue again; their runs are resumed."""
    statuses = ("failed", "aborted", *(("partial",) if partial else ()))
    count = _with_queue(store, lambda control: control.retry(batch, statuses))
    say(f"{count} item{'' if count == 1 else 's'} put into the queue")


def _with_queue(store: str | None, action: "Callable[[Control], Awaitable[_T]]") -> _T:
    with guarded():
        url = queue_url(store)
        from run_specialist.fleet.control import Control  # noqa: PLC0415 - a database library

        async def act() -> _T:
            async with Control(url) as control:
                return await action(control)

        return asyncio.run(act())


def _row(one: "BatchStatus") -> tuple[str, ...]:
    numbers = (
        sum(one.items.values()),
        sum(one.items.get(state, 0) for state in _DONE),
        sum(one.items.get(state, 0) for state in _FAILED),
        one.at_work,
        one.queued,
        one.workers,
    )
    limit = "" if one.cost_limit is None else f" / {dollars(one.cost_limit)}"
    return (one.batch_id, one.state, *map(str, numbers), f"{dollars(one.cost_usd)}{limit}", one_line(one.specialist))


def _remarks(one: "BatchStatus") -> list[str]:
    remarks = []
    if one.closed_until is not None:
        remarks.append(f"waits until {datetime.fromtimestamp(one.closed_until).astimezone():%H:%M:%S}")
    if one.reason is not None:
        remarks.append(one_line(one.reason))
    if dead := one.items.get("dead"):
        remarks.append(f"{dead} given up, because {'it' if dead == 1 else 'they'} may end their workers")
    return remarks
