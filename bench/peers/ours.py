"""run-specialist from Python, without a store and without a listener."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from bench.given import MODEL, SYSTEM, Child, Conditions

if TYPE_CHECKING:
    from run_specialist import Runner, Specialist


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a runner for the lap."""
    async with runner(conditions, "none") as child:
        yield child


@asynccontextmanager
async def runner(
    conditions: Conditions, store: str, listener: Callable[[Any], None] | None = None
) -> AsyncIterator[Child]:
    """Open a runner with a store and an event listener."""
    async with runner_of(conditions, store) as (opened_runner, specialist):

        async def child(question: str) -> str:
            return (await opened_runner.run(specialist, question, listener=listener)).answer

        yield child


@asynccontextmanager
async def runner_of(conditions: Conditions, store: str) -> AsyncIterator[tuple["Runner", "Specialist"]]:
    """Open a runner with a store; yield it with the specialist to ask."""
    os.environ.update(ANTHROPIC_BASE_URL=conditions.url, ANTHROPIC_API_KEY="none")
    from run_specialist import Runner, Specialist, tool  # noqa: PLC0415 - part of what is measured

    @tool
    async def search_notes(query: str) -> str:  # noqa: ARG001 - the note is always the same
        """Search the notes and return matching passages.

        Args:
            query: words to look for
        """
        return conditions.search()

    specialist = Specialist(
        name="note-reader",
        description="Searches the notes.",
        prompt=SYSTEM,
        tools=(),
        model=MODEL,
        tool_calls_limit=conditions.limit,
        landing=conditions.landing,
    )
    async with Runner(root=conditions.folder, tools=[search_notes], store=store) as opened_runner:
        yield opened_runner, specialist
