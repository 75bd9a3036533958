"""A batch that is left in the middle ends with its runner."""

import asyncio

import pytest

from run_specialist.api.runner import Runner
from run_specialist.tools.base import Tool
from tests.scripted_provider import ScriptedProvider
from tests.unit.api.finder_scripts import FINDER, LOOKS

pytestmark = pytest.mark.usefixtures("project")


async def test_closing_a_runner_aborts_the_items_of_a_batch_that_was_left(tmp_path):
    """The iteration is given up without `aclose`; after the block of the runner no run is under way."""
    reached, released = asyncio.Event(), asyncio.Event()

    async def look(query: str) -> str:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            released.set()
        return query

    tools = [Tool("look", "Look.", look)]
    async with Runner(provider=ScriptedProvider([LOOKS]), store=tmp_path / "runs.db", tools=tools) as runner:
        batch = runner.map(FINDER, ["owls", "mice"], at_once=1)
        following = asyncio.create_task(anext(aiter(batch)))
        await reached.wait()
        assert batch.counts.under_way == 1
    assert released.is_set()
    assert (batch.counts.under_way, batch.counts.aborted) == (0, 1)
    following.cancel()
    await asyncio.wait([following])
