"""Show where the processor time of many children goes, by part, beside the floor: a loop that posts ready bytes.

    uv run --group bench python -m bench.time_by_part [CHILDREN]

The peers run in this process, one after the other. A signal every millisecond of processor time finds the innermost
function that belongs to a part; what Python itself does counts for its caller. Figures are microseconds per request.
"""

import asyncio
import gc
import signal
import sys
from collections import Counter
from importlib import import_module
from types import FrameType

from bench import connections
from bench.given import Conditions
from bench.judges.packages import table
from bench.lab import Lab
from bench.lap import children
from bench.report import machine

EVERY = 0.001
"""Processor time between two samples [s]."""
CALLS = 10
PEERS = {"bytes_aio": "a loop of ready bytes", "bare_aio": "a bare loop on the SDK", "ours": "run-specialist"}
COLLECTOR = "the garbage collector"
PARTS = {
    # Part: places in the paths of its files.
    "masking": ("run_specialist/safety/",),
    "requests and replies": ("run_specialist/providers/", "run_specialist/record/"),
    "the loop, its budget and its tools": ("run_specialist/loop/", "run_specialist/budget", "run_specialist/tools/"),
    "making a child, and its end": ("run_specialist/",),
    "the SDK and its HTTP client": ("/anthropic/", "/httpx2/", "/httpcore2/", "/h11/", "/anyio/"),
    "pydantic": ("/pydantic/",),
    "aiohttp and its packages": ("/aiohttp/", "/yarl/", "/multidict/", "/frozenlist/", "/propcache/", "/aiosignal/"),
    "asyncio": ("/asyncio/", "/selectors.py"),
    "the benchmark": ("/bench/",),
}
REST = "the rest"


def part_of(frame: FrameType | None) -> str:
    """Return the part of the innermost function that belongs to one; built-in functions belong to their caller."""
    while frame is not None:
        path = frame.f_code.co_filename
        for part, places in PARTS.items():
            if any(place in path for place in places):
                return part
        frame = frame.f_back
    return REST


async def measure(lab: Lab, peer: str, count: int) -> dict[str, float]:
    """Return the processor time of each part [µs per request], after a warm-up."""
    found, collecting = Counter[str](), False

    def collected(phase: str, _: object) -> None:
        nonlocal collecting
        collecting = phase == "start"

    def sample(_: int, frame: FrameType | None) -> None:
        found[COLLECTOR if collecting else part_of(frame)] += 1

    conditions = Conditions(lab.url, folder=lab.folder())
    async with import_module(f"bench.peers.{peer}").opened(conditions) as child:
        given = {"run": lab.new_run(), "children": 3, "calls": CALLS, "delay": 20}
        await children(child, conditions, given)
        gc.collect()
        gc.callbacks.append(collected)
        before = signal.signal(signal.SIGPROF, sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
        try:
            measured = await children(child, conditions, {**given, "run": lab.new_run(), "children": count})
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            gc.callbacks.remove(collected)
    each = measured["cpu"] * 1e6 / (count * (CALLS + 1))
    return {part: each * number / found.total() for part, number in found.items()}


def main() -> None:
    """Print the table."""
    connections.allow()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with Lab() as lab:
        found = {name: asyncio.run(measure(lab, peer, count)) for peer, name in PEERS.items()}
    print(f"{machine()}\n\n{count:,} children x {CALLS} calls\n")
    rows = [[part, *(f"{one.get(part, 0):.0f}" for one in found.values())] for part in (*PARTS, COLLECTOR, REST)]
    rows.append(["all", *(f"{sum(one.values()):.0f}" for one in found.values())])
    print(table(["part", *found], rows))


if __name__ == "__main__":
    main()
