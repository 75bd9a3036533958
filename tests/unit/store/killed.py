"""Processes that write runs and are killed at random; prints each acknowledged turn as a line of RUN TURN.

Run as a program with these arguments: the URL of a store, the number of pairs of processes, a seed. Slow imports are
done once, and the processes are forked before any thread exists.
"""

import asyncio
import os
import random
import select
import signal
import sys
import time

import psycopg  # noqa: F401 - imported once for all processes
import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401 - imported once for all processes

import run_specialist.store.ledger  # noqa: F401 - imported once for all processes
from run_specialist.store.location import Location
from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, turn_of, write

LONGEST = 0.3
"""Latest time of a kill after the first turn [s]."""
CHILDREN = 4


def output(turn: int) -> str:
    """Return the output of the tool in a turn, long enough to be compressed."""
    return f"output {turn} " * 200


async def work(url: str, process: str, pipe: int) -> None:
    """Write turns until killed, and report each committed turn through the pipe."""
    writer = Writer(Location(url, named=True))

    async def child(run_id: str) -> None:
        journal, turn = writer.journal(run_id), 0
        assert await write(journal, *begun(run_id)) is None
        while True:
            turn += 1
            assert await write(journal, *turn_of(turn, output(turn))) is None
            os.write(pipe, f"{run_id} {turn}\n".encode())

    await asyncio.gather(*(child(f"{process}-{number}") for number in range(CHILDREN)))


def forked(url: str, process: str, pipe: int) -> int:
    """Fork a process that writes, and return its id."""
    process_id = os.fork()
    if not process_id:
        asyncio.run(work(url, process, pipe))
    return process_id


def kill_pair(url: str, pair: int, seconds: float) -> bytes:
    """Let two processes write, kill them some time after their first turn, and return their reports."""
    ours, theirs = os.pipe()
    processes = [forked(url, f"run-{pair}-{number}", theirs) for number in range(2)]
    os.close(theirs)
    said = os.read(ours, 65_536)
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([ours], [], [], left)[0]:
            said += os.read(ours, 65_536)
    for process_id in processes:
        os.kill(process_id, signal.SIGKILL)
        os.waitpid(process_id, 0)
    while more := os.read(ours, 65_536):
        said += more
    os.close(ours)
    return said


if __name__ == "__main__":
    store, pairs, seed = sys.argv[1:]
    chance = random.Random(int(seed))  # noqa: S311 - no secret
    for number in range(int(pairs)):
        sys.stdout.write(kill_pair(store, number, chance.uniform(0, LONGEST)).decode())
