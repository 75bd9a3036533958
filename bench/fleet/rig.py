"""A fleet for measurements: a PostgreSQL server, worker processes, a scripted model, and a batch of items."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psycopg

from bench.fleet.model import Model, serving
from bench.process import environment
from run_specialist.fleet.batches import Control, freeze
from run_specialist.specialist.loader import load
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem
from tests.postgres_server import PostgresServer, postgres_server

BATCH = "b00000001"
_MAIN = """
import logging
logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
logging.getLogger("run_specialist.fleet").setLevel(logging.DEBUG)
from run_specialist.cli.manage import main
main()
"""
_FILE = """---
name: finder
description: Finds what owls eat.
tools: [grep]
model: claude-sonnet-4-5
---
You look for facts in notes.
"""


class WorkerProcess:
    """A worker in a separate process, which writes its lines to a file."""

    def __init__(self, number: int, command: list[str], env: dict[str, str], folder: Path) -> None:
        """Start the process.

        number: names it in the requests that it sends.
        """
        self.number = number
        self._log = log = folder / "log"
        with log.open("w") as out:
            self.process = subprocess.Popen(command, env=env, cwd=folder, stdout=out, stderr=out)

    def send(self, number: signal.Signals) -> float:
        """Send a signal; return the time [seconds since 1970]."""
        at = time.time()
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()
        return at

    @property
    def token(self) -> str:
        """The name of the worker in the queue; empty while it starts."""
        found = re.search(r"worker ([0-9a-f-]{36})", self.said)
        return found[1] if found else ""

    @property
    def said(self) -> str:
        """Its output so far."""
        return self._log.read_text()


class Rig:
    """One batch and its fleet."""

    def __init__(self, server: PostgresServer, model: Model, folder: Path) -> None:
        """Create the project and the tables."""
        self.server, self.model, self._folder = server, model, folder
        self.root = folder / "notes"
        (self.root / ".git").mkdir(parents=True)
        (self.root / "owls.md").write_text("Owls eat mice.\n")
        self._file = self.root / "specialists" / "finder.md"
        self._file.parent.mkdir()
        self._file.write_text(_FILE)
        self.workers: list[WorkerProcess] = []
        self._started = 0
        asyncio.run(self._set_up())

    async def _set_up(self) -> None:
        async with Control(self.server.url) as control:
            await control.set_up()

    def put(self, count: int, **settings: object) -> None:
        """Put a batch into the queue."""
        frozen = freeze(load(self._file), self.root, settings)
        batch = StoredBatch(BATCH, "finder", "What do owls eat?", time.time(), frozen.model_dump())
        items = (
            StoredItem(f"{BATCH}-{n:016x}", n, f"item {n}", f"What do owls eat? ITEM{{{n}}}")
            for n in range(1, count + 1)
        )
        with BatchWriter(self.server.url) as writer:
            writer.put(batch, items)
        asyncio.run(self._put())

    async def _put(self) -> None:
        async with Control(self.server.url) as control:
            await control.put(BATCH)

    def start(self, at_once: int = 8, *, store: str | None = None) -> WorkerProcess:
        """Start a worker.

        store: another URL of the database.
        """
        self._started += 1
        home = self._folder / f"home-{self._started}"
        home.mkdir()
        env = environment(home, ANTHROPIC_BASE_URL=f"{self.model.url}/{self._started}", ANTHROPIC_API_KEY="none")
        flags = ["--store", store or self.server.url, "--at-once", str(at_once), "--root", f"notes={self.root}"]
        command = [sys.executable, "-c", _MAIN, "worker", *flags]
        worker = WorkerProcess(self._started, command, env, home)
        self.workers.append(worker)
        return worker

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            found = connection.execute(statement, values or None)
            return found.fetchall() if found.description else []

    def counts(self) -> dict[str, int]:
        """Return the runs by status."""
        return dict(self.query("select status, count(*) from run_specialist.runs group by status"))

    def done(self) -> int:
        """Return how many items have ended or were given up."""
        return int(self.query("select count(*) from run_specialist.items where state in ('ended', 'dead')")[0][0])

    def given_up(self) -> list[int]:
        """Return the items that were given up, because their workers died repeatedly."""
        return [
            item_of(run_id) for (run_id,) in self.query("select run_id from run_specialist.items where state = 'dead'")
        ]

    def wait(self, items: int, seconds: float) -> float:
        """Wait until this many items have ended; return the duration [s].

        Raises TimeoutError after some time.
        """
        begun = time.monotonic()
        while self.done() < items:
            if time.monotonic() - begun > seconds:
                raise TimeoutError(f"{self.done()} of {items} items after {seconds} s: {self.counts()}")
            time.sleep(0.2)
        return time.monotonic() - begun

    def held(self, worker: WorkerProcess) -> dict[int, int]:
        """Return the items whose jobs a worker holds, with the number of the stored turns of their runs."""
        rows = self.query(
            "select job.dedupe_key, (select count(*) from run_specialist.turns t where t.run_id = job.dedupe_key) "
            "from run_specialist_queue.pgqueuer job where queue_manager_id::text = %s",
            worker.token,
        )
        return {item_of(run_id): turns for run_id, turns in rows}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                os.kill(worker.process.pid, signal.SIGCONT)
                worker.process.kill()
                worker.process.wait()


def item_of(run_id: str) -> int:
    """Return the number of the item of a run."""
    return int(run_id.rpartition("-")[2], 16)


@contextmanager
def fleet(turns: int, delay: float) -> Iterator[Rig]:
    """Yield a rig without workers, on a separate server.

    turns: replies of each run.
    delay: time for a reply [s].
    """
    with (
        postgres_server() as server,
        serving(Model(turns, delay)) as model,
        tempfile.TemporaryDirectory() as folder,
        Rig(server, model, Path(folder)) as rig,
    ):
        yield rig
