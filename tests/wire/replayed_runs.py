"""Runs of a specialist's file against a simulated API, stored and replayed."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from run_specialist.api.runner import Runner
from run_specialist.replay.cassette import Cassette, cassette_of, parsed, read_cassette
from run_specialist.replay.replay import ReplayResult, replay
from run_specialist.store.stored import StoredRun
from tests.journals import load
from tests.wire.chat import replies as chat_replies
from tests.wire.connected import MESSAGES, connected
from tests.wire.serving import write_specialist
from tests.wire.simulator import replies


@contextmanager
def no_network():
    """Fail on every connection to an address."""

    def refuse(*arguments: Any) -> None:
        raise AssertionError(f"a connection was opened to {arguments[1:]}")

    with patch.object(socket.socket, "connect", refuse), patch.object(socket.socket, "connect_ex", refuse):
        yield


@dataclass
class RecordedRuns:
    """A project with a specialist, and the API that answers it."""

    kind: str
    root: Path
    start: Any
    """Starts the simulator of the API."""

    @classmethod
    def of(cls, kind: str, root: Path, start: Any) -> "RecordedRuns":
        """Return a project with a note and a specialist."""
        (root / "notes").mkdir()
        (root / "notes/owls.md").write_text("# Owls\n\nOwls eat mice.\n")
        made = cls(kind, root, start)
        made.write("tool_calls_limit: 4")
        return made

    @property
    def say(self) -> Any:
        """The module that builds replies of this API."""
        return replies if self.kind == MESSAGES else chat_replies

    @property
    def url(self) -> str:
        """The URL of the store."""
        return f"sqlite:///{self.root}/runs.db"

    def write(self, *lines: str, name: str = "looker", body: str = "You look things up.") -> None:
        """Write the specialist."""
        write_specialist(self.root, name, *lines, body=body)

    def read(self, path: str = "notes/owls.md", **more: Any) -> Any:
        """Return a reply that reads a note."""
        return self.say.calls("read", {"path": path, **more})

    async def record(self, *script: Any, question: str = "What do owls eat?", **settings: Any) -> StoredRun:
        """Ask a question and return the stored run."""
        given = {key: settings.pop(key) for key in ("tools", "trust") if key in settings}
        async with (
            self.provider_of(script) as (_, provider),
            Runner(root=self.root, provider=provider, store=self.url, **given) as runner,
        ):
            await runner.run("looker", question, **settings)
        return load(self.url)

    @asynccontextmanager
    async def provider_of(self, script: Any) -> AsyncIterator[tuple[Any, Any]]:
        """Start a simulator of the API; provide it and a provider that uses it."""
        simulator = self.start([*script])
        async with connected(simulator) as provider:
            yield simulator, provider

    def load_parent(self, run: StoredRun) -> StoredRun:
        """Return the run that asked a child."""
        return load(self.url, str(run.parent_id))

    async def replay(self, cassette: Cassette | StoredRun) -> ReplayResult:
        """Replay a run without any network."""
        recorded = cassette_of(cassette) if isinstance(cassette, StoredRun) else cassette
        with no_network():
            return await replay(recorded, self.root)

    async def save(self, run: StoredRun) -> Path:
        """Write a cassette as the command does, and return its path."""
        text = cassette_of(run).text(self.root)
        replayed = await self.replay(parsed(text, "a cassette"))
        assert replayed.difference is None
        path = self.root / "cassette.json"
        path.write_text(text)
        return path

    async def replay_file(self, path: Path) -> ReplayResult:
        """Replay a cassette file."""
        return await self.replay(read_cassette(path))


async def differs(runs: RecordedRuns, run: Any) -> tuple[int | None, str, list[str]]:
    """Return the request that differs, its part, and the lines of the diff that differ."""
    found = (await runs.replay(run)).difference
    assert found is not None
    return found.request, found.part, [line for line in found.as_json()["diff"][2:] if line[:1] in {"+", "-"}]
