"""Kill the real command at random and resume it, many times, and check after each kill what is stored.

Run it from the top of the repository, in an environment with the `test` group:

    python -m bench.crash_rig --kills 200 [--store postgresql://USER@HOST/DATABASE] [--seed 1] [--by stop]

Each process is started by itself, as people start it, unless `--forked` is given. The model is the simulated Messages
API of the tests. What must hold stands in tests/crash/checks.py and tests/crash/kill_loop.py; the first
thing that does not ends the program with a traceback.
"""

import argparse
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.crash.fork_server import ForkServer, Single
from tests.crash.kill_loop import KillCounts, KillLoop, Kills

SIGNALS = {"kill": (signal.SIGKILL,), "stop": (signal.SIGINT, signal.SIGTERM)}
"""What processes are struck with."""


def rig(given: argparse.Namespace) -> KillCounts:
    """Kill processes in some lanes side by side; return what came of it."""
    left, total = Kills(given.kills), KillCounts()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.lanes) as pool:
        at_work = [
            KillLoop(number, Path(folder) / f"loop-{number}", given.store, signals=SIGNALS[given.by])
            for number in range(given.seed, given.seed + given.lanes)
        ]
        done = [pool.submit(loop.work, left, ForkServer() if given.forked else Single()) for loop in at_work]
        for each in done:
            each.result()
        for loop in at_work:
            total += loop.counts
    return total


def main() -> None:
    """Read the flags and print a table."""
    parser = argparse.ArgumentParser(description="Kill the real command at random and resume it.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--lanes", type=int, default=2, help="runs side by side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", help="a database that the runs share; SQLite files of their own without it")
    parser.add_argument("--forked", action="store_true", help="start faster, by forking")
    parser.add_argument("--by", choices=list(SIGNALS), default="kill", help="SIGKILL, or Ctrl-C and SIGTERM")
    given = parser.parse_args()
    begun = time.monotonic()
    total = rig(given)
    struck = ", ".join(f"{count} at {moment}" for moment, count in total.struck.most_common())
    rows = [
        ("processes killed", f"{total.kills}: {struck}"),
        ("status afterwards", ", ".join(f"{count} {status}" for status, count in total.left_as.most_common())),
        ("runs, each brought to its answer", total.runs),
        ("requests that were answered", total.requests),
        ("of these, answered and not stored: asked for once more", total.lost_replies),
        ("of these, told of by an event", total.told_and_lost),
        ("tool calls stored", total.calls),
        ("of these, under way when their process was killed", total.broken_off),
        ("of these, just returned", total.lost_outputs),
        ("made once more by the model", total.retried),
        ("killed before the run was stored: begun anew", total.not_on_record),
        ("killed after the outcome was stored", total.after_the_end),
        ("minutes", f"{(time.monotonic() - begun) / 60:.1f}"),
    ]
    print("| | |\n|---|---|")
    for row in rows:
        print("| {} | {} |".format(*row))


if __name__ == "__main__":
    main()
