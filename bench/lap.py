"""Run one peer in one mode and print the measurements as one line of JSON.

    python bench/lap.py PEER MODE '{"url": ..., "run": ..., ...}'

Imports only the standard library, so that a peer may use a separate environment.
"""

import asyncio
import gc
import json
import re
import resource
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

from bench import connections
from bench.given import QUESTION, Child, Conditions
from bench.notes import SEALED
from bench.server.script import ANSWER, Script

Given = dict[str, Any]
Measured = dict[str, Any]


def cpu() -> float:
    """Return the CPU time of this process without child processes [s]."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_memory() -> float:
    """Return the peak memory of this process [MB]."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        # Only a fallback, because it includes memory of the parent process before `exec`.
        unit = 1024 * 1024 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _question(script: Script) -> str:
    return f"{script.tag()} {QUESTION}"


async def first(child: Child, conditions: Conditions, given: Given) -> Measured:  # noqa: ARG001 - as all modes
    """Request an answer without a tool call; the server records when the request arrives."""
    return {"answered": ANSWER in await child(_question(Script(given["run"])))}


async def calls(child: Child, conditions: Conditions, given: Given) -> Measured:
    """Measure runs of several calls, one per turn, after a short warm-up run."""
    await child(_question(Script(f"{given['run']}-warm", wants=3)))
    measured = []
    for number in given["calls"]:
        conditions.calls = 0
        gc.collect()
        cpu_before, before = cpu(), time.perf_counter()
        script = Script(f"{given['run']}-{number}", wants=number, delay=given.get("delay", 0))
        answer = await child(_question(script))
        took, cpu_took = time.perf_counter() - before, cpu() - cpu_before
        answered = ANSWER in answer and conditions.calls == number
        measured.append({"calls": number, "cpu": cpu_took, "wall": took, "answered": answered})
    return {"runs": measured, "answered": all(run["answered"] for run in measured)}


async def children(child: Child, conditions: Conditions, given: Given) -> Measured:
    """Measure many concurrent children."""
    await child(_question(Script(f"{given['run']}-warm", wants=2)))
    scripts = [
        Script(f"{given['run']}-{number}", wants=given["calls"], delay=given["delay"])
        for number in range(given["children"])
    ]
    conditions.calls = 0
    cpu_before, before = cpu(), time.perf_counter()
    answers = await asyncio.gather(*(child(_question(script)) for script in scripts), return_exceptions=True)
    took, cpu_took = time.perf_counter() - before, cpu() - cpu_before
    wrong = [answer for answer in answers if isinstance(answer, BaseException) or ANSWER not in answer]
    answered = not wrong and conditions.calls == given["calls"] * given["children"]
    reason = f"{len(wrong)} children without an answer, the first: {wrong[0]!r}" if wrong else ""
    return {"wall": took, "cpu": cpu_took, "memory": peak_memory(), "answered": answered, "reason": reason}


async def items(child: Child, conditions: Conditions, given: Given) -> Measured:
    """Measure many questions, a few at a time: by the peer's own means, or by tasks and a semaphore."""
    await child(_question(Script(f"{given['run']}-warm", wants=2)))
    questions = [
        _question(Script(f"{given['run']}-{number}", wants=given["calls"], delay=given["delay"]))
        for number in range(given["items"])
    ]
    conditions.calls = 0
    ask_all = getattr(child, "ask_all", None)
    cpu_before, before = cpu(), time.perf_counter()
    if ask_all is None:
        free = asyncio.Semaphore(given["at_once"])

        async def ask(question: str) -> str:
            async with free:
                return await child(question)

        answers = await asyncio.gather(*(ask(question) for question in questions))
    else:
        answers = await ask_all(questions, given["at_once"])
    took, cpu_took = time.perf_counter() - before, cpu() - cpu_before
    wrong = [answer for answer in answers if ANSWER not in answer]
    answered = not wrong and conditions.calls == given["calls"] * given["items"] and len(answers) == given["items"]
    reason = f"{len(wrong)} items without an answer, the first: {wrong[0]!r}" if wrong else ""
    return {"wall": took, "cpu": cpu_took, "memory": peak_memory(), "answered": answered, "reason": reason}


async def landing(child: Child, conditions: Conditions, given: Given) -> Measured:
    """Measure runs in which the model wants more calls than the limit allows, one after another."""
    runs = []
    for number, how in enumerate(given["models"]):
        conditions.calls = 0
        answer = await child(_question(Script(f"{given['run']}-{number}", wants=given["wants"], **how)))
        runs.append({"answers": int(ANSWER in answer), "calls": conditions.calls})
    return {"runs": runs, "answered": True}


async def search(child: Child, conditions: Conditions, given: Given) -> Measured:
    """Measure consecutive searches with a peer that records the start and end of each.

    The last query must find all sealed notes.
    """
    queries = given["queries"]
    answer = await child(_question(Script(given["run"], wants=queries, tool="search", asks=given["asks"])))
    ends = zip(conditions.moments[::2], conditions.moments[1::2], strict=True)
    wall, processor = zip(*((end[0] - begin[0], end[1] - begin[1]) for begin, end in ends), strict=True)
    found = len(set(re.findall(r"note-\d+\.md", conditions.result)))
    reason = f"the last query found {found} of {SEALED} notes: not all were read" if found != SEALED else ""
    answered = ANSWER in answer and conditions.calls == queries and not reason
    return {"wall": wall, "cpu": processor, "memory": peak_memory(), "answered": answered, "reason": reason}


MODES = {mode.__name__: mode for mode in (first, calls, children, items, landing, search)}


async def measure(peer: str, mode: str, given: Given) -> Measured:
    """Run one lap and return its measurements."""
    names = ("limit", "landing")
    conditions = Conditions(given["url"], **{name: given[name] for name in names if name in given})
    conditions.folder = Path(given.get("folder", Path.cwd()))
    async with import_module(f"bench.peers.{peer}").opened(conditions) as child:
        return await MODES[mode](child, conditions, given)


def main() -> None:
    """Run the lap given on the command line and print its measurements."""
    peer, mode, given = sys.argv[1:]
    connections.allow()
    print(json.dumps(asyncio.run(measure(peer, mode, json.loads(given)))))


if __name__ == "__main__":
    main()
