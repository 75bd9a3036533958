"""Measure a call of the tool `bash`: `python -m bench.shell_calls [ROOT]`, by default with an empty root."""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from run_specialist.budget import Budget
from run_specialist.spawning.extra_tools import SHELL_OFFER
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Context

CALLS = 50


async def measured(root: Path) -> list[float]:
    """Return how long calls of `true` take, sorted [ms]."""
    settings = Specialist(name="bench", description="", prompt="", tools=("bash",))
    if lacking := SHELL_OFFER.lacking(settings, root):
        sys.exit(lacking)
    tool, context = SHELL_OFFER.make(settings, root), Context("run", "call", Budget(()), 60.0)
    found = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        await tool.call({"command": "true"}, context)
        found.append((time.perf_counter() - begin) * 1000)
    return sorted(found)


def main() -> None:
    """Print the shortest and the median time."""
    with tempfile.TemporaryDirectory() as empty:
        root = Path(sys.argv[1] if len(sys.argv) > 1 else empty)
        times = asyncio.run(measured(root))
    print(f"{CALLS} calls of true in {root}: at least {times[0]:.1f} ms, median {statistics.median(times):.1f} ms")


if __name__ == "__main__":
    main()
