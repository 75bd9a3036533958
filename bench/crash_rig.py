"""Kill the real command at random and resume it, many times, and check the store after each kill.

Run it from the top of the repository, in an environment with the `test` group:

    python -m bench.crash_rig --kills 200 [--store postgresql://USER@HOST/DATABASE] [--seed 1] [--by stop]

Each process is started as a new command, as users do, unless `--forked` is given. The model is the simulated Messages
API of the tests. The checks are in tests/crash/checks.py and tests/crash/kill_loop.py; the first failure ends the
program with a traceback.
"""

import argparse
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.crash.kill_loop import KillCounts, KillLoop, Kills
from tests.forked_program import ForkedProgram

SIGNALS = {"kill": (signal.SIGKILL,), "stop": (signal.SIGINT, signal.SIGTERM)}
"""Signals to kill processes with, by the value of `--by`."""


def rig(given: argparse.Namespace) -> KillCounts:
    """Kill processes in several concurrent loops; return the counts."""
    left, total = Kills(given.kills), KillCounts()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.lanes) as pool:
        at_work = [
            KillLoop(number, Path(folder) / f"loop-{number}", given.store, signals=SIGNALS[given.by])
            for number in range(given.seed, given.seed + given.lanes)
        ]
        start = ForkedProgram if given.forked else subprocess.Popen
        done = [pool.submit(loop.work, left, start) for loop in at_work]
        for each in done:
            each.result()
        for loop in at_work:
            total += loop.counts
    return total


def main() -> None:
    """Read the flags and print a table."""
    parser = argparse.ArgumentParser(description="Kill the real command at random and resume it.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--lanes", type=int, default=2, help="number of parallel runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", help="database shared by the runs; default: an SQLite file per lane")
    parser.add_argument("--forked", action="store_true", help="start processes faster, by forking")
    parser.add_argument("--by", choices=list(SIGNALS), default="kill", help="kill: SIGKILL; stop: Ctrl-C and SIGTERM")
    given = parser.parse_args()
    begun = time.monotonic()
    total = rig(given)
    struck = ", ".join(f"{count} at {moment}" for moment, count in total.struck.most_common())
    rows = [
        ("kills", f"{total.kills}: {struck}"),
        ("status after the kill", ", ".join(f"{count} {status}" for status, count in total.left_as.most_common())),
        ("runs, each resumed until it answered", total.runs),
        ("requests that the API answered", total.requests),
        ("replies not stored, requested again", total.lost_replies),
        ("of these, had reached the program", total.told_and_lost),
        ("tool calls stored", total.calls),
        ("in progress when their process ended", total.broken_off),
        ("of these, had just returned", total.lost_outputs),
        ("made again by the model", total.retried),
        ("kills before the run was stored; it was started again", total.not_on_record),
        ("kills after the outcome was stored", total.after_the_end),
        ("minutes", f"{(time.monotonic() - begun) / 60:.1f}"),
    ]
    print("| | |\n|---|---|")
    for row in rows:
        print("| {} | {} |".format(*row))


if __name__ == "__main__":
    main()
