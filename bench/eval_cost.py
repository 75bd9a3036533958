"""Measure the overhead of an eval over the same runs by `Runner` alone: wall time of 200 cases x 3 variants.

Run it from the top of the repository, in an environment with the `test` group:

    python -m bench.eval_cost

The model is a script in this process that takes 20 ms per request. Both sides store their runs in a file, and make 3
tool calls per run. An eval also plans, looks for stored runs, checks each answer, and counts calls in stored spans.
Each figure is the fastest of 3 laps, in turn; the target is 1.10.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from run_specialist import Runner
from run_specialist.batch.batch import Bounds
from run_specialist.cli.runs import existing_store
from run_specialist.evals.cases import EvalCase
from run_specialist.evals.evaluators import make
from run_specialist.evals.plan import planned, subjects, varied
from run_specialist.evals.reuse import reused
from run_specialist.evals.running import result_of, runs_batch
from run_specialist.providers.base import Capabilities, Opening, Request, Watch
from run_specialist.record.messages import Reply, Usage
from run_specialist.tools.base import Tool
from tests.scripted_provider import calls

CASES, LIMITS = 200, (5, 6, 7)
CALLS = 3
DELAY = 0.02
"""[s]"""
AT_ONCE = 32
LAPS = 3
TARGET = 1.10

FILE = """\
---
name: reader
description: Reads notes.
tools: []
evidence: "off"
---
You read notes.
"""


class SlowModel:
    """Makes some calls and then answers, each reply after a delay."""

    model = "scripted"
    capabilities = Capabilities(forced_choice=True, max_output_tokens=64_000)

    def __init__(self) -> None:
        self._turn = 0

    def open(self, opening: Opening, watch: Watch | None = None) -> "SlowModel":  # noqa: ARG002 - as the protocol
        """Begin a conversation."""
        return SlowModel()

    async def ask(self, request: Request) -> Reply:  # noqa: ARG002 - the replies do not depend on it
        """Return the next reply."""
        await asyncio.sleep(DELAY)
        self._turn += 1
        if self._turn <= CALLS:
            return calls(("look", {"query": f"owls {self._turn}"}), first_id=self._turn)
        return calls(("respond", {"answer": "Owls eat mice.", "gaps": ["the rest"]}), first_id=self._turn)

    def cost(self, usage: Usage) -> float:
        """Return the cost of a request [USD]."""
        return usage.total_tokens / 100_000

    async def aclose(self) -> None:
        """Do nothing."""


async def look(query: str) -> str:
    """Return immediately."""
    return f"{query}: mice"


def runner(folder: Path) -> Runner:
    """Return a runner with its own store."""
    store = folder / f"{time.monotonic_ns()}.db"
    tool = Tool("look", "Looks.", look)
    return Runner(root=folder, provider=SlowModel(), tools=[tool], store=store)


async def alone(folder: Path) -> None:
    """Make all runs in tasks."""
    room = asyncio.Semaphore(AT_ONCE)
    async with runner(folder) as opened:

        async def one(number: int, limit: int) -> None:
            async with room:
                outcome = await opened.run(folder / "reader.md", f"What about {number}?", tool_calls_limit=limit)
                assert outcome.status == "answered"  # noqa: S101 - the figure means nothing otherwise

        await asyncio.gather(*(one(number, limit) for number in range(CASES) for limit in LIMITS))


async def as_eval(folder: Path) -> None:
    """Make the same runs as an eval."""
    checks = tuple(map(make, ({"Contains": "mice"}, {"CallsUnder": 5}, {"MaxToolCalls": 5}, "Gap")))
    cases = tuple(EvalCase(str(number), f"What about {number}?", "", {}, {}, checks) for number in range(CASES))
    async with runner(folder) as opened:
        vary = varied([f"tool_calls_limit={','.join(map(str, LIMITS))}"])
        compared = subjects([opened.registry.find(str(folder / "reader.md"))], {}, vary)
        plan = planned(opened, "reader", folder / "reader.evals.yaml", cases, compared)
        with existing_store(opened.store) as store:
            plan = await reused(plan, opened, store, fresh=False)
        ends = {done.number: done async for done in runs_batch(plan, opened, Bounds(AT_ONCE))}
        with existing_store(opened.store) as store:
            result = await result_of(plan, ends, {}, store)
    assert all(one.passed for one in result.runs)  # noqa: S101 - as above
    assert len(result.runs) == CASES * len(LIMITS)  # noqa: S101 - as above


def seconds(work: Callable[[Path], Coroutine[None, None, None]], folder: Path) -> tuple[float, float]:
    """Return wall time and CPU time of a lap [s]."""
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(work(folder))
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> int:
    """Print the figures; return 1 if the target is missed."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "reader.md").write_text(FILE)
        os.environ["HOME"] = str(folder)
        laps = [(seconds(alone, folder), seconds(as_eval, folder)) for _ in range(LAPS)]
    for kind, place in (("wall", 0), ("CPU", 1)):
        plain, evaluated = min(lap[0][place] for lap in laps), min(lap[1][place] for lap in laps)
        print(f"{kind}: {plain:.2f} s by Runner alone, {evaluated:.2f} s as an eval: {evaluated / plain:.2f} times")
    return int(min(lap[1][0] for lap in laps) > TARGET * min(lap[0][0] for lap in laps))


if __name__ == "__main__":
    sys.exit(main())
