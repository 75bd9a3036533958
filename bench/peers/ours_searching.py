"""run-specialist with its `search` tool; records the start and end of each call and its result."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bench.given import MODEL, SYSTEM, Child, Conditions

if TYPE_CHECKING:
    from run_specialist import Event


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a runner for the lap."""
    os.environ.update(ANTHROPIC_BASE_URL=conditions.url, ANTHROPIC_API_KEY="none")
    from run_specialist import Called, Executed, Runner, Specialist  # noqa: PLC0415 - as in the other peers

    def watch(event: "Event") -> None:
        if isinstance(event, Called):
            if event.phase == "finished":
                conditions.calls += 1
            conditions.moments.append((time.perf_counter(), time.process_time()))

    def keep(executed: Executed) -> None:
        conditions.result = executed.text

    specialist = Specialist(
        name="note-reader",
        description="Searches the notes.",
        prompt=SYSTEM,
        tools=("search",),
        model=MODEL,
        tool_calls_limit=conditions.limit,
    )
    async with Runner(root=conditions.folder, store="none", augmenters=[keep]) as runner:

        async def child(question: str) -> str:
            return (await runner.run(specialist, question, listener=watch)).answer

        yield child
