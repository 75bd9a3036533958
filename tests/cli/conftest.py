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

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.cli.ask import app
from run_specialist.loop.job import Job
from tests.cli.specialists_command import GOOD
from tests.forked_program import ForkedProgram
from tests.wire.chat import ChatSimulator
from tests.wire.local_api import ROUTES, VARIABLES, LocalApi
from tests.wire.simulator import MessagesSimulator

Server = TypeVar("Server", MessagesSimulator, ChatSimulator, LocalApi)
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
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Server], Server]]:
    """Return a function that starts a server and sets a variable to its address; the server is checked at the end."""
    with ExitStack() as running:

        def start(variable: str, server: Server) -> Server:
            running.enter_context(server)
            monkeypatch.setenv(variable, server.url if isinstance(server, LocalApi) else server.base_url)
            return server

        yield start


@pytest.fixture
def api(serving: Callable[..., Any]) -> Callable[..., MessagesSimulator]:
    """Return a function that starts a simulator and sets ANTHROPIC_BASE_URL."""
    return lambda *given, **options: serving("ANTHROPIC_BASE_URL", MessagesSimulator(*given, **options))


@pytest.fixture
def chat(serving: Callable[..., Any]) -> Callable[..., ChatSimulator]:
    """Return a function that starts a simulator of chat completions and sets OPENAI_BASE_URL."""
    return lambda *given, **options: serving("OPENAI_BASE_URL", ChatSimulator(*given, **options))


@pytest.fixture
def local(serving: Callable[..., Any]) -> Callable[..., LocalApi]:
    """Return a function that starts a server of a kind and sets the variable with its address."""
    return lambda kind, replies=(), routes=None: serving(VARIABLES[kind], LocalApi(routes or ROUTES[kind](), replies))


@pytest.fixture
def program(notes: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts the command as a separate process; running processes are killed at the end."""
    with ExitStack() as running:

        def start(*arguments: str, code: str = MAIN, **options: Any) -> subprocess.Popen[str]:
            given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": os.environ} | options
            command = [sys.executable, "-W", "error", "-c", code, *arguments]
            process = running.enter_context(ForkedProgram(command, **given))
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


def _lines_to(path: Path, *first: str) -> Callable[..., Path]:
    def write_lines(*lines: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*first, *lines, ""]))
        return path

    return write_lines


@pytest.fixture
def project_file(notes: Path) -> Callable[..., Path]:
    """Return a function that writes the table of the project."""
    return _lines_to(notes / "pyproject.toml", "[tool.run-specialist]")


@pytest.fixture
def user_file(notes: Path) -> Callable[..., Path]:
    """Return a function that writes the user's config file."""
    return _lines_to(notes.parent / "home/.config/run-specialist/config.toml")


@pytest.fixture
def prepared(call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    """Return a function that asks offline with options, and returns the job of the run."""
    jobs, prepare = [], Runner.prepare

    async def recorded(*arguments: Any, **options: Any) -> Any:
        run = await prepare(*arguments, **options)
        jobs.append(run.job)
        return run

    def ask(*options: str) -> Job:
        monkeypatch.setattr(Runner, "prepare", recorded)
        result = call("finder", "What do owls eat?", "--model", "offline", *options)
        assert result.exit_code == 0, result.output
        return jobs[-1]

    return ask


def limits_of(job: Job) -> dict[Kind, float]:
    """Return the limits of a job that are set."""
    return {one.kind: one.limit for one in job.budget.limits if one.limit is not None}


@pytest.fixture
def project(notes: Path) -> Path:
    """The project with one valid specialist."""
    (notes / "specialists" / "finder.md").write_text(GOOD)
    return notes


@pytest.fixture
def store(notes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Store runs in a file and return its path."""
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "runs.db"))
    return tmp_path / "runs.db"
