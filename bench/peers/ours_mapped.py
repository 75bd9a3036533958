"""run-specialist from Python with a store on disk, asked about many items by `Runner.map`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.given import Child, Conditions
from bench.peers.ours import runner_of


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a runner for the lap; its child also answers many questions in one call."""
    async with runner_of(conditions, f"sqlite:///{conditions.folder / 'runs.db'}") as (runner, specialist):

        async def child(question: str) -> str:
            return (await runner.run(specialist, question)).answer

        async def ask_all(questions: Sequence[str], at_once: int) -> list[str]:
            batch = runner.map(specialist, questions, at_once=at_once)
            return [done.outcome.answer if done.outcome else str(done.error) async for done in batch]

        child.ask_all = ask_all  # type: ignore[attr-defined]
        yield child
