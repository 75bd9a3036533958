"""Stored runs, each started or resumed as by a new process, with a scripted model."""

import time
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.loop.account import Clock
from run_specialist.loop.job import Augmenter
from run_specialist.loop.run import EndedRun, Run
from run_specialist.providers.base import Request
from run_specialist.record.events import Event
from run_specialist.record.journal import EventLogged
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.resuming import ResumeRequest, resume
from run_specialist.spawning.spawner import RunEnvironment
from run_specialist.specialist.fields import Specialist
from run_specialist.store.stored import StoredRun
from run_specialist.tools.base import Tool
from tests.journals import Notebook, keep, load
from tests.loop_jobs import LOOK
from tests.scripted_provider import Line, ScriptedProvider

LOOKER = Specialist(name="looker", description="", prompt="You look things up.", tools=())
ID = "b3f9c2d1e-0123456789abcdef"
QUESTION = "What is known?"


@dataclass
class RunSegment:
    """One segment of a run: from its start or a resumption to its end."""

    outcome: Outcome
    provider: ScriptedProvider
    run: Run
    events: list[Event] = field(default_factory=list)
    notebook: Notebook = field(default_factory=Notebook)
    """Its records, if they were not written into the store."""

    @property
    def noted(self) -> str:
        """The note to the model on resuming, from the records."""
        (resumed,) = [one.event for one in self.notebook.of(EventLogged) if one.event.event == "resumed"]
        return resumed.note

    @property
    def requests(self) -> list[Request]:
        """The requests of the segment."""
        return self.provider.requests

    def named(self, name: str) -> list[Any]:
        """Return the events of one name, in order."""
        return [event for event in self.events if event.event == name]


@dataclass
class StoredRunHarness:
    """A store, and processes that use it one after the other."""

    folder: Path
    specialist: Specialist = LOOKER
    tools: Sequence[Tool] = (LOOK,)
    augmenters: Sequence[Augmenter] = ()
    schema: bool = False
    """Whether the scripted model takes a schema for its reply."""
    store: str = ""
    """The URL of the store; by default it is a file in the folder."""

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self.store or f"sqlite:///{self.folder}/runs.db"

    @asynccontextmanager
    async def process(self, *script: Line, **options: Any) -> Any:
        """Open a runner, which represents a new process, and close it afterwards; its script may have unused lines."""
        given = {"root": self.folder, "tools": self.tools, "augmenters": self.augmenters, "store": self.url}
        async with Runner(**({"provider": ScriptedProvider(script)} | given | options)) as runner:
            yield runner

    async def take(self, *script: Line, **how: Any) -> Outcome:
        """Take up the run in a new process that sends the requests of the script, and return the outcome."""
        provider = ScriptedProvider(script)
        async with self.process(provider=provider) as runner:
            outcome = await (await taken(runner, **how)).outcome()
        provider.assert_used_up()
        return outcome

    async def ask(self, *script: Line, question: str = QUESTION, **settings: Any) -> RunSegment:
        """Ask a question in a new process, and return the finished segment."""
        provider = ScriptedProvider(script, schema=self.schema)
        events: list[Event] = []
        async with self.process(provider=provider) as runner:
            run = await runner.prepare(self.specialist, question, listener=events.append, **settings)
            outcome = await run.outcome()
        provider.assert_used_up()
        return RunSegment(outcome, provider, run, events)

    async def go_on(self, *script: Line, question: str | None = None, **wish: Any) -> RunSegment:
        """Resume a run, by default the newest, in a new process."""
        return await self._take("resume", script, question, wish)

    async def fork(self, at: int, *script: Line, question: str | None = None, **wish: Any) -> RunSegment:
        """Fork a run, by default the newest, in a new process."""
        return await self._take("fork", script, question, wish | {"at": at})

    async def _take(self, how: str, script: Sequence[Line], question: str | None, wish: dict[str, Any]) -> RunSegment:
        provider = wish.pop("provider", None) or ScriptedProvider(script, schema=self.schema)
        events: list[Event] = []
        async with self.process(provider=provider) as runner:
            run_id = wish.pop("run_id", "last")
            run = await getattr(runner, how)(run_id, question, listener=events.append, **wish)
            outcome = await run.outcome()
        provider.assert_used_up()
        return RunSegment(outcome, provider, run, events)

    async def record(
        self, *script: Line, past: StoredRun | None = None, clock: Clock | None = None, **settings: Any
    ) -> RunSegment:
        """Start or resume a run, and keep its records in memory instead of in the store."""
        provider, notebook = ScriptedProvider(script, schema=self.schema), Notebook()
        if past is None:
            async with self.process(provider=provider, store="none") as runner:
                job = (await runner.prepare(self.specialist, QUESTION, **settings)).job
        else:
            around = RunEnvironment(self.folder, provider, self.tools, self.augmenters)
            job = resume(past, ResumeRequest(limits=settings), around)
        run = Run(job, journal=notebook, clock=clock or time.monotonic)
        return RunSegment(await run.outcome(), provider, run, [], notebook)

    async def keep(self, records: Sequence[Any]) -> None:
        """Write records, as a process does that dies afterwards."""
        await keep(self.url, records)

    def load(self) -> StoredRun:
        """Load the newest run from the store."""
        return load(self.url)


async def taken(runner: Runner, run_id: str = ID, question: str = QUESTION, **how: Any) -> Run | EndedRun:
    """Take up a run of the looker."""
    return await runner.take_up(run_id, how.pop("specialist", LOOKER), question, **how)
