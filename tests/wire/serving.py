"""Served specialists: inside this process with a scripted model, and as a separate program."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.extension import ClientExtension

from run_specialist.api.runner import Runner
from run_specialist.mcp_server.server import Service, make_server
from run_specialist.tools.base import Tool
from tests.forked_program import ForkedProgram
from tests.scripted_provider import Line, ScriptedProvider

PATIENCE = 90
"""Timeout, after which a hanging program fails the test [s]."""
MAIN = "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()"


@dataclass
class ProgressLog:
    """The progress notifications that a client received."""

    notifications: list[tuple[float, float | None, str | None]] = field(default_factory=list)
    received: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at each notification."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Record a notification."""
        self.notifications.append((progress, total, message))
        self.received.set()

    @property
    def messages(self) -> list[str | None]:
        """The texts of the notifications."""
        return [message for _, _, message in self.notifications]


@dataclass
class BlockingTool:
    """A tool whose call blocks until the test releases it."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: bool = False

    @property
    def tool(self) -> Tool:
        """The tool `hold`."""

        async def hold() -> str:
            self.entered.set()
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            return "let go"

        return Tool("hold", "Waits.", hold)


@dataclass
class Served:
    """A server with one client."""

    client: Client
    service: Service
    said: list[str]
    """Messages to the user who started the server."""

    async def call(self, name: str, progress_log: ProgressLog | None = None, **arguments: Any) -> Any:
        """Call a tool, and wait for its result."""
        async with asyncio.timeout(PATIENCE):
            return await self.client.call_tool(name, arguments, progress_callback=progress_log)


@asynccontextmanager
async def serving(
    script: Sequence[Line] = (),
    *,
    mode: str = "auto",
    tools: Sequence[Tool] = (),
    store: str = "none",
    extensions: Sequence[ClientExtension] = (),
) -> AsyncIterator[Served]:
    """Serve the specialists of the current project with a scripted model."""
    said: list[str] = []
    async with Runner(provider=ScriptedProvider(script), tools=tools, store=store) as runner:
        service = Service(runner, said.append)
        async with Client(make_server(service), mode=mode, extensions=extensions) as client:
            yield Served(client, service, said)
        await service.close(PATIENCE)


def command(*arguments: str, code: str = MAIN) -> list[str]:
    """Return the command that starts the server as a separate process."""
    return [sys.executable, "-W", "error", "-c", code, "mcp", *arguments]


def write_specialist(root: Path, name: str, *lines: str, file: str = "", body: str = "You look.") -> Path:
    """Write a specialist's file with a name and lines of front matter."""
    path = root / "specialists" / f"{file or name}.md"
    path.write_text("\n".join(["---", f"name: {name}", f"description: Is {name}", *lines, "---", body, ""]))
    return path


def enter_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty project and a home folder of its own; change into the project, return it."""
    root = tmp_path / "project"
    for folder in (".git", "specialists"):
        (root / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(root)
    return root


def owl_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with a note about owls, a specialist for it and its own store; change into it, return it."""
    root = enter_project(tmp_path, monkeypatch)
    (root / "notes").mkdir()
    (root / "notes" / "owls.md").write_text("# Owls\n\nOwls eat mice at night.\n")
    write_specialist(root, "finder", "tool_calls_limit: 4", "paths: [notes]")
    monkeypatch.setenv("SPECIALIST_STORE", f"sqlite:///{tmp_path}/runs.db")
    return root


class Program:
    """The server as a separate program, over standard input and output or HTTP."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    @classmethod
    def start(cls, *arguments: str, code: str = MAIN, **options: Any) -> "Program":
        """Start the program."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given = {**pipes, "text": True, "env": dict(os.environ)} | options
        return cls(ForkedProgram(command(*arguments, code=code), **given))

    def url(self) -> str:
        """Wait until the program serves over HTTP, and return its URL."""
        for line in self.process.stderr:
            if " on http" in line:
                return line.split(" on ")[1].strip()
        raise AssertionError("it ended before it served")

    def end(self) -> None:
        """Kill the program if it is running, and close its pipes."""
        self.process.kill()
        self.process.communicate()
