"""run-specialist from Python with a store on disk, and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.given import Child, Conditions
from bench.peers.ours import runner


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a runner for the lap."""
    async with runner(conditions, f"sqlite:///{conditions.folder / 'runs.db'}") as child:
        yield child
