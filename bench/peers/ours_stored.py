"""run-specialist from Python with a store on disk and a listener that writes events as JSON."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bench.given import Child, Conditions
from bench.peers.ours import runner

if TYPE_CHECKING:
    from run_specialist import Event


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a runner for the lap."""
    with (conditions.folder / "events.jsonl").open("w", encoding="utf-8") as events:

        def write(event: "Event") -> None:
            events.write(json.dumps(event.as_json()) + "\n")

        async with runner(conditions, f"sqlite:///{conditions.folder / 'runs.db'}", write) as child:
            yield child
