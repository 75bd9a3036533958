"""Runs with a chain of models, at simulated endpoints of both APIs that are chosen by environment variables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from run_specialist.api.runner import Runner
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome
from run_specialist.store.stored import StoredRun
from tests.journals import load
from tests.loop_jobs import LOOK
from tests.wire.resumed_requests import LOOKER

OPUS, SONNET, HAIKU = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"


@dataclass
class Chains:
    """A folder with a store, and the processes that run specialists in it one after the other."""

    folder: Path
    environment: pytest.MonkeyPatch
    url: str
    """The URL of the store."""
    events: list[Event] = field(default_factory=list)

    def use(self, messages: Any = None, chat: Any = None) -> None:
        """Let the next runs ask these simulators."""
        for prefix, api in (("ANTHROPIC", messages), ("OPENAI", chat)):
            for name, value in (("BASE_URL", api and api.base_url), ("API_KEY", api and "test")):
                if value:
                    self.environment.setenv(f"{prefix}_{name}", value)
                else:
                    self.environment.delenv(f"{prefix}_{name}", raising=False)

    async def ask(self, models: Sequence[str] = (), specialist: Any = LOOKER, **settings: Any) -> Outcome:
        """Start a run in a new runner."""
        model = ",".join(models) or None
        async with self.runner() as runner:
            run = await runner.prepare(
                specialist, "What is known?", model=model, listener=self.events.append, **settings
            )
            return await run.outcome()

    async def resume(self, question: str | None = None, **options: Any) -> Outcome:
        """Resume the newest run in a new runner."""
        async with self.runner() as runner:
            run = await runner.resume("last", question, listener=self.events.append, **options)
            return await run.outcome()

    async def fork(self, at: int, run_id: str, **options: Any) -> Outcome:
        """Fork a run in a new runner."""
        async with self.runner() as runner:
            return await (await runner.fork(run_id, at=at, listener=self.events.append, **options)).outcome()

    def runner(self) -> Runner:
        """Return a runner, as a new process would have it."""
        return Runner(root=self.folder, tools=[LOOK], store=self.url)

    def named(self, name: str) -> list[Any]:
        """Return the events of one name, in order."""
        return [event for event in self.events if event.event == name]

    def load(self, run_id: str | None = None) -> StoredRun:
        """Return a stored run, by default the newest."""
        return load(self.url, run_id) if run_id else load(self.url)


def asked(api: Any) -> list[str]:
    """Return the model of each request, in order."""
    return [sent.body["model"] for sent in api.requests]
