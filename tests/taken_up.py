"""Runs that are taken up by their id, each as by a new process, with a scripted model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.loop.run import EndedRun, Run
from run_specialist.record.outcome import Outcome
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
from tests.scripted_provider import Line, ScriptedProvider
from tests.stored_runs import LOOKER

ID = "b3f9c2d1e-0123456789abcdef"
QUESTION = "What is known?"


@dataclass
class Office:
    """A store, and the processes that use it."""

    folder: Path
    url: str

    @asynccontextmanager
    async def process(self, *script: Line, tools: tuple[Tool, ...] = (LOOK,), **options: Any) -> AsyncIterator[Runner]:
        """Open a runner, which represents a new process, and close it afterwards; its script may have unused lines."""
        options = {"root": self.folder, "provider": ScriptedProvider(script), "store": self.url} | options
        async with Runner(tools=tools, **options) as runner:
            yield runner

    async def take(self, *script: Line, **how: Any) -> Outcome:
        """Take up the run in a new process that sends the requests of the script, and return the outcome."""
        provider = ScriptedProvider(script)
        async with self.process(provider=provider, root=how.pop("root", self.folder)) as runner:
            outcome = await (await taken(runner, **how)).outcome()
        provider.assert_used_up()
        return outcome


async def taken(runner: Runner, run_id: str = ID, question: str = QUESTION, **how: Any) -> Run | EndedRun:
    """Take up a run of the looker."""
    return await runner.take_up(run_id, how.pop("specialist", LOOKER), question, **how)
