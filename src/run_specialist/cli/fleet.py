"""The commands `specialists fleet` and `specialists worker`."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from run_specialist.budget import dollars
from run_specialist.cli.console import fail, guarded, one_line, print_json, print_line, require_extra, say
from run_specialist.cli.flags import Json, StoreUrl
from run_specialist.cli.help import CommandList, GroupedCommand
from run_specialist.cli.tables import print_table
from run_specialist.errors import with_flags
from run_specialist.fleet.worker_log import HealthFile, LineLog
from run_specialist.store.location import place, shown

if TYPE_CHECKING:
    from run_specialist.fleet.batches import Control, Root
    from run_specialist.record.outcome import Exit


app = typer.Typer(
    cls=CommandList, rich_markup_mode=None, no_args_is_help=True, help="Manage the batches in the queue of a fleet."
)
_T = TypeVar("_T")

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="Id of a batch.")]
_DONE = ("answered", "landed", "partial")
_FAILED = ("failed", "aborted", "dead", "cancelled")


@app.command(cls=GroupedCommand)
def setup(store: StoreUrl = None) -> None:
    """Create or upgrade the tables of the queue; repeating it has no effect."""
    _with_queue(store, lambda control: control.set_up())
    say("the queue is ready")


@app.command(cls=GroupedCommand)
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
    rows = []
    for one in found:
        done, failed = (sum(one.items.get(state, 0) for state in states) for states in (_DONE, _FAILED))
        numbers = (sum(one.items.values()), done, failed, one.at_work, one.queued, one.workers)
        limit = "" if one.cost_limit is None else f" / {dollars(one.cost_limit)}"
        cost = f"{dollars(one.cost_usd)}{limit}"
        rows.append((one.batch_id, one.state, *map(str, numbers), cost, one_line(one.specialist)))
    head = ("BATCH", "STATE", "ITEMS", "DONE", "FAILED", "AT WORK", "QUEUED", "WORKERS", "COST", "SPECIALIST")
    print_table(head, rows)
    for one in found:
        if one.closed_until is not None:
            print_line(f"{one.batch_id}: waits until {datetime.fromtimestamp(one.closed_until).astimezone():%H:%M:%S}")
        if one.reason is not None:
            print_line(f"{one.batch_id}: {one_line(one.reason)}")
        if dead := one.items.get("dead"):
            print_line(f"{one.batch_id}: {dead} given up, because items may end their workers")


@app.command(cls=GroupedCommand)
def pause(batch: BatchId, store: StoreUrl = None) -> None:
    """Pause a batch: no more of its items start, and items in progress continue."""
    _with_queue(store, lambda control: control.pause(batch))
    say(f"batch {batch} is paused")


@app.command(cls=GroupedCommand)
def resume(batch: BatchId, store: StoreUrl = None) -> None:
    """Resume a paused batch: workers take its items again."""
    _with_queue(store, lambda control: control.resume(batch))
    say(f"batch {batch} is resumed")


@app.command(cls=GroupedCommand)
def cancel(batch: BatchId, store: StoreUrl = None) -> None:
    """End a batch: items in the queue are not run, and items in progress end after their current turn."""
    count = _with_queue(store, lambda control: control.cancel(batch))
    say(f"{count} item{'' if count == 1 else 's'} removed from the queue")


@app.command(cls=GroupedCommand)
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
        from run_specialist.fleet.batches import Control  # noqa: PLC0415 - a database library

        async def act() -> _T:
            async with Control(url) as control:
                return await action(control)

        return asyncio.run(act())


_ROOT = "Folder of this host, under the name that batches use; repeatable.  [default: the project, under its own name]"
_TRUST = "Allow the commands and imports that the specialists of the batches declare."
_HEALTH = "Keep the state of the worker in FILE, as JSON, for supervisors."
POSTGRES = ("postgresql:", "postgres:", "postgresql+")


def worker(
    at_once: Annotated[
        int, typer.Option(metavar="N", min=1, help="Items that this worker works on at the same time.")
    ] = 8,
    root: Annotated[list[str] | None, typer.Option(metavar="NAME=PATH", help=_ROOT)] = None,
    store: StoreUrl = None,
    trust: Annotated[bool, typer.Option("--trust", help=_TRUST)] = False,
    health: Annotated[Path | None, typer.Option(metavar="FILE", help=_HEALTH)] = None,
) -> None:
    """Work on the items of batches in the queue, until SIGTERM or Ctrl-C.

    Any number of workers can share a queue, on any hosts. On the first signal, the worker completes and stores the
    current model replies and returns unfinished items to the queue; on the second, it stops immediately.

    Exit codes: 0 stopped by a signal, 2 wrong flag, missing privilege, or tables of another version, 3 an API key is
    refused.
    """
    with guarded():
        url = queue_url(store)
        from run_specialist.fleet.batches import roots_of  # noqa: PLC0415 - fast `--help`

        roots = roots_of(root or (), Path.cwd())
        code = asyncio.run(_work(url, roots, health, at_once=at_once, trust=trust))
    raise typer.Exit(code)


def queue_url(store: str | None) -> str:
    """Return the URL of the queue's database; exit if it is not PostgreSQL, or if the extra is not installed."""
    require_extra("fleet", "a queue needs", "pgqueuer", "psycopg")
    url = place(store).url
    if not url.startswith(POSTGRES):
        fail(f"a queue needs a PostgreSQL store, got {shown(url)}; use --store postgresql://USER@HOST:PORT/DATABASE")
    return url


async def _work(url: str, roots: "Mapping[str, Root]", health: Path | None, *, at_once: int, trust: bool) -> "Exit":
    from run_specialist.fleet.worker import Worker  # noqa: PLC0415 - a database library

    log = LineLog(lambda line: print_line(with_flags(line), sys.stderr))
    file = None if health is None else HealthFile(health)
    worker = Worker(url, roots, log, at_once=at_once, trust=trust, health=file)
    names = ", ".join(f"{name}={root.path}" for name, root in sorted(roots.items()))
    log(f"worker {worker.queue.worker}, {at_once} items at once, for {shown(url)}, with {names}")
    loop = asyncio.get_running_loop()
    signals = 0

    def stop(name: str) -> None:
        nonlocal signals
        signals += 1
        doing = "completing the current replies" if signals == 1 else "stopping immediately"
        log(f"{name}: {doing}, items go back to the queue")
        worker.stop(after_turn=signals == 1)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    return await worker.work()
