"""Run a thousand concurrent children in one process, a fifth of them failing at random, and check the results.

Run it from the top of the repository, in an environment with the `test` group:

    python -m bench.many_children --children 1000 [--rounds 3] [--seed 1] [--store sqlite:///FILE]

The model is a server in a thread of the same process; the injected faults are listed in tests/crowd/crowd.py. The exit
code is 1 if a child was lost, reported twice, ended with the wrong status or got the answer of another one, or if a
task, a thread, a descriptor or an object of a run leaked.
"""

import argparse
import asyncio
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.crowd.crowd import FATES, alive, drawn, play, serving, unread, wrong
from tests.leak_check import Census, left_since, resident

MEGABYTE = 1024 * 1024


def main() -> int:
    """Read the flags, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run many children at once, a fifth of them failing.")
    parser.add_argument("--children", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3, help="consecutive crowds; memory must not grow")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--store", default="none", help="prefix of the SQLite URLs, one per round")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"{given.children} children, seed {given.seed}\n")
    with tempfile.TemporaryDirectory() as folder:
        return rounds(given, Path(folder))


def rounds(given: argparse.Namespace, folder: Path) -> int:
    """Run the crowds one after another; return 1 if any check failed."""
    faults: list[str] = []
    ends: Counter[tuple[str, str]] = Counter()
    print("| round | s | requests | at once | MB before | MB peak | MB after | leaked objects |")
    print("|---|---|---|---|---|---|---|---|")
    with serving() as server:
        warming = "none" if given.store == "none" else f"{given.store}.warming"
        asyncio.run(play(drawn(len(FATES), given.seed), server, folder, warming))
        before, census = alive(), Census.take()
        for number in range(given.rounds):
            server.requests.clear()
            server.most_at_once = 0
            store = "none" if given.store == "none" else f"{given.store}.{number}"
            begun, memory = time.monotonic(), resident()
            crowd = asyncio.run(play(drawn(given.children, given.seed + number), server, folder, store))
            seconds = time.monotonic() - begun
            faults += wrong(crowd, server) + (unread(store, crowd) if store != "none" else [])
            ends, peak = ends + crowd.by_fate, crowd.resident["most"]
            del crowd
            left = alive() - before
            faults += [f"leaked: {count} of {name}" for name, count in left.items()]
            sizes = " | ".join(f"{size / MEGABYTE:.0f}" for size in (memory, peak, resident()))
            requests = sum(server.requests.values())
            print(f"| {number + 1} | {seconds:.1f} | {requests} | {server.most_at_once} | {sizes} | {left.total()} |")
        faults += left_since(census)
    print("\n| fault | status | children |\n|---|---|---|")
    for (fate, status), count in sorted(ends.items(), key=lambda item: -item[1]):
        print(f"| {fate} | {status} | {count} |")
    print(f"\n{len(faults)} failed checks", *faults[:50], sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
