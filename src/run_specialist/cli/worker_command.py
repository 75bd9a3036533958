"""The command `specialists worker`: work on the items of batches that are in the queue."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.api.flag_names import with_flags
from run_specialist.cli.console import fail, guarded, print_line
from run_specialist.cli.flags import StoreUrl
from run_specialist.store.location import place, shown

if TYPE_CHECKING:
    from run_specialist.fleet.roots import Root
    from run_specialist.record.outcome import Exit

POSTGRES = ("postgresql:", "postgres:", "postgresql+")

Roots = Annotated[
    list[str] | None,
    typer.Option(
        "--root",
        metavar="NAME=PATH",
        help="Folder of this host, under the name that batches use; repeatable.  "
        "[default: the project, under its own name]",
    ),
]
AtOnce = Annotated[
    int, typer.Option("--at-once", metavar="N", min=1, help="Items that this worker works on at the same time.")
]
TrustBatches = Annotated[
    bool, typer.Option("--trust", help="Allow the commands and imports that the specialists of the batches declare.")
]
Health = Annotated[
    Path | None,
    typer.Option("--health", metavar="FILE", help="Keep the state of the worker in FILE, as JSON, for supervisors."),
]


def worker(
    at_once: AtOnce = 8,
    root: Roots = None,
    store: StoreUrl = None,
    trust: TrustBatches = False,
    health: Health = None,
) -> None:
    """Work on the items of batches in the queue, until SIGTERM or Ctrl-C.

    Any number of workers can share a queue, on any hosts. On the first signal, the worker completes and stores the
    current model replies and returns unfinished items to the queue; on the second, it stops immediately.

    Exit codes: 0 stopped by a signal, 2 wrong flag, missing privilege, or tables of another version, 3 an API key is
    refused.
    """
    with guarded():
        url = queue_url(store)
        from run_specialist.fleet.roots import roots_of  # noqa: PLC0415 - fast `--help`

        roots = roots_of(root or (), Path.cwd())
        code = asyncio.run(_work(url, roots, health, at_once=at_once, trust=trust))
    raise typer.Exit(code)


def queue_url(store: str | None) -> str:
    """Return the URL of the queue's database; exit if it is not PostgreSQL, or if the extra is not installed."""
    if find_spec("pgqueuer") is None or find_spec("psycopg") is None:
        from run_specialist.installation import adding  # noqa: PLC0415 - for errors only

        fail(f"a queue needs the extra `fleet`; {adding('fleet')}")
    url = place(store).url
    if not url.startswith(POSTGRES):
        fail(f"a queue needs a PostgreSQL store, got {shown(url)}; use --store postgresql://USER@HOST:PORT/DATABASE")
    return url


async def _work(url: str, roots: "Mapping[str, Root]", health: Path | None, *, at_once: int, trust: bool) -> "Exit":
    from run_specialist.fleet.worker import Worker  # noqa: PLC0415 - a database library
    from run_specialist.fleet.worker_log import HealthFile, LineLog  # noqa: PLC0415 - fast `--help`

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
        log(
            f"{name}: {'completing the current replies' if signals == 1 else 'stopping immediately'}, "
            "items go back to the queue"
        )
        worker.stop(after_turn=signals == 1)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    return await worker.work()
