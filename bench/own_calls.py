"""Count the Python calls of a request, of this package and of all code: `python -m bench.own_calls [REQUESTS]`.

A stored run reads one file in every turn. Two runs of different length are compared, so that starting, landing and
closing do not count. Only the thread of the event loop is counted, without the writer of the store.
"""

import asyncio
import cProfile
import os
import pstats
import sys
import tempfile
from pathlib import Path

from bench.given import MODEL, SYSTEM
from bench.lab import Lab
from bench.server.script import Script

WARM, SHORT = 2, 5
"""Requests of the first run, which is not counted, and of the short one."""


def counted(profile: cProfile.Profile) -> tuple[int, int]:
    """Return the calls of functions of this package, and all calls."""
    stats = pstats.Stats(profile).stats
    own = sum(figures[1] for (file, _, _), figures in stats.items() if "/src/run_specialist/" in file)
    return own, sum(figures[1] for figures in stats.values())


async def measured(url: str, folder: Path, requests: int) -> dict[int, tuple[int, int]]:
    """Return the calls of a run by its number of requests."""
    os.environ.update(ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="none")
    from run_specialist import Runner, Specialist  # noqa: PLC0415 - after the environment is set

    specialist = Specialist(
        name="reader", description="", prompt=SYSTEM, tools=("read",), model=MODEL, tool_calls_limit=10 * requests
    )
    found = {}
    async with Runner(root=folder, store=f"sqlite:///{folder.parent / 'runs.db'}") as runner:
        for number in (WARM, SHORT, requests):
            names = ",".join(f"{number}-{turn}.md" for turn in range(number))
            for name in names.split(","):
                (folder / name).write_text(f"# {name}\n\nA decision was made.\n", encoding="utf-8")
            script = Script(f"run-{number}", wants=number, tool="read", asks=names)
            with cProfile.Profile() as profile:
                outcome = await runner.run(specialist, f"{script.tag()} What was decided?")
            if outcome.tool_calls.used != number or outcome.tool_calls.failed:
                sys.exit(f"{outcome.tool_calls} for {number} calls")
            found[number] = counted(profile)
    return found


def main() -> None:
    """Print the calls per request."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with Lab() as lab, tempfile.TemporaryDirectory() as given:
        folder = Path(given) / "notes"
        folder.mkdir()
        found = asyncio.run(measured(lab.url, folder, requests))
    between = requests - SHORT
    own, every = ((found[requests][which] - found[SHORT][which]) / between for which in (0, 1))
    print(f"{own:.0f} calls of functions of this package per request, {every:.0f} with those of libraries")


if __name__ == "__main__":
    main()
