"""Fixtures for the command tests: a project with specialists, simulated APIs, and the command run in-process or not."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner, Result

from run_specialist.cli.ask import app
from tests.cli.specialists_command import GOOD
from tests.forked_program import ForkedProgram
from tests.wire.chat import ChatSimulator
from tests.wire.local_api import ROUTES, VARIABLES, LocalApi
from tests.wire.simulator import MessagesSimulator

Simulator = TypeVar("Simulator", MessagesSimulator, ChatSimulator)
MAIN = "import sys; sys.argv[0] = 'run-specialist'; from run_specialist.cli.ask import main; main()"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two notes and a `specialists` folder as the working directory, and an empty home directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "project"
    for folder in (".git", "specialists", "notes"):
        (root / folder).mkdir(parents=True)
    (root / "notes" / "owls.md").write_text("# Owls\n\nOwls eat mice at night.\n")
    (root / "notes" / "toads.md").write_text("# Toads\n\nToads sleep in winter.\n")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def write(notes: Path) -> Callable[..., Path]:
    """Return a function that writes a specialist file from a name and lines of front matter."""

    def write_file(name: str, *lines: str, body: str = "You find notes.") -> Path:
        path = notes / "specialists" / f"{name}.md"
        path.write_text("\n".join(["---", f"name: {name}", f"description: Is {name}", *lines, "---", body, ""]))
        return path

    return write_file


@pytest.fixture
def call(notes: Path) -> Callable[..., Result]:
    """Return a function that calls the command in this process; `charset` is the encoding of its terminal."""

    def call_command(*arguments: str, charset: str = "utf-8", **options: Any) -> Result:
        return CliRunner(charset=charset).invoke(app, arguments, catch_exceptions=False, **options)

    return call_command


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., MessagesSimulator]]:
    """Return a function that starts a simulator and sets ANTHROPIC_BASE_URL; the simulator is checked at the end."""
    yield from _starting(MessagesSimulator, "ANTHROPIC_BASE_URL", monkeypatch)


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ChatSimulator]]:
    """Return a function that starts a simulator and sets OPENAI_BASE_URL to it; the simulator is checked at the end."""
    yield from _starting(ChatSimulator, "OPENAI_BASE_URL", monkeypatch)


def _starting(
    kind: type[Simulator], variable: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Simulator]]:
    with ExitStack() as running:

        def start(*arguments: Any, **options: Any) -> Simulator:
            simulator = running.enter_context(kind(*arguments, **options))
            monkeypatch.setenv(variable, simulator.base_url)
            return simulator

        yield start


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LocalApi]]:
    """Return a function that starts a server of a kind and sets the variable with its address; checked at the end."""
    with ExitStack() as running:

        def start(kind: str, replies: Any = (), routes: Any = None, **options: Any) -> LocalApi:
            server = running.enter_context(LocalApi(routes or ROUTES[kind](), replies, **options))
            monkeypatch.setenv(VARIABLES[kind], server.url)
            return server

        yield start


@pytest.fixture
def program(notes: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts the command as a separate process; running processes are killed at the end."""
    with ExitStack() as running:

        def start(
            *arguments: str, code: str = MAIN, kind: type[subprocess.Popen[str]] = ForkedProgram, **options: Any
        ) -> subprocess.Popen[str]:
            given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": os.environ} | options
            command = [sys.executable, "-W", "error", "-c", code, *arguments]
            process = running.enter_context(kind(command, **given))
            running.callback(process.kill)
            return process

        yield start


@pytest.fixture
def ask(call: Callable[..., Result]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that asks a question offline and returns exit code, stdout and stderr."""

    def put(*flags: str) -> tuple[int, str, str]:
        result = call("finder", "What do owls eat?", "--model", "offline", "--quiet", *flags)
        return result.exit_code, result.stdout, result.stderr

    return put


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one valid specialist as the working directory, and a home directory without specialists."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "specialists").mkdir()
    (root / "specialists" / "finder.md").write_text(GOOD)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def store(notes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Store runs in a file and return its path."""
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "runs.db"))
    return tmp_path / "runs.db"
