"""Fixtures that start simulated APIs and run specialists against them."""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from run_specialist.record.outcome import Outcome
from tests.wire.chat import ChatSimulator
from tests.wire.connected import CHAT, MESSAGES, asked
from tests.wire.local_api import ROUTES, VARIABLES, LocalApi
from tests.wire.replayed_runs import RecordedRuns
from tests.wire.resumed_requests import Endpoint
from tests.wire.serving import Program, enter_project, write_specialist
from tests.wire.simulator import MessagesSimulator
from tests.wire.specialists import Asker

StartSimulator = Callable[..., MessagesSimulator]
NODE_PACKAGES = (
    "@modelcontextprotocol/inspector@>=2.12 <3",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "node@>=22.19 <23",
)
"""Third-party clients of MCP servers, and a Node that runs them; as in .ci/run."""


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule():
    """Let the ordinary run take every third case of each test here: most run on several APIs, streamed and not."""
    module = yield
    module.add_marker(pytest.mark.exhaustive(one_in=3))
    return module


def starting(kind: type) -> Iterator[Callable[..., Any]]:
    """Yield a function that starts simulators; each is stopped and checked afterwards."""
    with ExitStack() as running:
        yield lambda *arguments, **options: running.enter_context(kind(*arguments, **options))


@pytest.fixture
def messages_api() -> Iterator[StartSimulator]:
    """Return a function that starts a simulator; each is stopped and checked after the test."""
    yield from starting(MessagesSimulator)


@pytest.fixture
def chat_api() -> Iterator[Callable[..., ChatSimulator]]:
    """Return a function that starts a chat completions simulator; each is stopped and checked after the test."""
    yield from starting(ChatSimulator)


@pytest.fixture(params=["json", "stream"])
def ask(messages_api: StartSimulator, tmp_path: Path, request: pytest.FixtureRequest) -> Asker:
    """Run a specialist's file twice: once with complete replies and once with streamed ones."""
    return Asker(messages_api, tmp_path, stream=request.param == "stream")


@pytest.fixture
def ask_once(messages_api: StartSimulator, tmp_path: Path) -> Asker:
    """Run a specialist's file with complete replies only, for tests that streaming does not affect."""
    return Asker(messages_api, tmp_path, stream=False)


@pytest.fixture(params=["stream", "json"])
def ask_chat(
    chat_api: Callable[..., ChatSimulator], request: pytest.FixtureRequest
) -> Callable[..., Awaitable[tuple[Outcome, ChatSimulator]]]:
    """Return a function that runs a job against a chat script, with complete replies and with streamed ones."""

    async def run(script: Any, limit: int | None = 9, **settings: Any) -> tuple[Outcome, ChatSimulator]:
        simulator = chat_api(script)
        watch = None if request.param == "json" else lambda delta: None
        return await asked(simulator, limit, watch=watch, **settings), simulator

    return run


@pytest.fixture(scope="session")
def node_program() -> Callable[[str], list[str]]:
    """Return a function that returns the command for a program of NODE_PACKAGES."""
    folder = os.environ.get("TEST_INSPECTOR")
    if folder is None:
        packages = " ".join(f"'{package}'" for package in NODE_PACKAGES)
        pytest.skip(f"Node: TEST_INSPECTOR names no folder; it is made by npm install --prefix FOLDER {packages}")

    def command(name: str) -> list[str]:
        found = [Path(folder, "node_modules", one) for one in ("node/bin/node", f".bin/{name}")]
        assert all(one.exists() for one in found), f"there is no {name} in {folder}"
        return [*map(str, found)]

    return command


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """Return a function that starts the server; processes still running at the end of the test are killed."""
    running: list[Program] = []

    def start(*arguments: str, **options: Any) -> Program:
        running.append(Program.start(*arguments, **options))
        return running[-1]

    yield start
    for one in running:
        one.end()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project as the current folder; specialists of the user and of the package are not found."""
    monkeypatch.setattr("run_specialist.specialist.project.packaged", lambda: tmp_path / "none")
    return enter_project(tmp_path, monkeypatch)


@pytest.fixture
def looker(project: Path) -> Path:
    """A specialist that looks things up, with four tool calls."""
    return write_specialist(project, "looker", "tool_calls_limit: 4", "tools: []")


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both kinds of MCP connection: with a handshake and without one."""
    return request.param


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Callable[..., LocalApi]:
    """Return a function that makes a local server and sets the variable with its address."""

    def make(kind: str, replies: Any = (), routes: Any = None, **options: Any) -> LocalApi:
        server = LocalApi(routes or ROUTES[kind](), replies, **options)
        monkeypatch.setenv(VARIABLES[kind], server.url)
        return server

    return make


@pytest.fixture(params=[MESSAGES, CHAT])
def runs(
    request: pytest.FixtureRequest, project: Path, messages_api: StartSimulator, chat_api: Callable[..., ChatSimulator]
) -> RecordedRuns:
    """A project with a note and a specialist, whose runs are replayed, on either API."""
    return RecordedRuns.of(request.param, project, messages_api if request.param == MESSAGES else chat_api)


@pytest.fixture(params=[MESSAGES, f"{MESSAGES}-stream", CHAT, f"{CHAT}-stream"])
def endpoint(
    request: pytest.FixtureRequest, messages_api: StartSimulator, chat_api: Callable[..., ChatSimulator], tmp_path: Path
) -> Callable[..., Endpoint]:
    """Return a function that starts an endpoint on either API, streamed or not, with one script for all processes."""
    kind, _, stream = request.param.partition("-")

    def start(make_script: Callable[[Any], Any], **options: Any) -> Endpoint:
        made = Endpoint(kind, None, tmp_path, bool(stream), **options)
        made.script = make_script(made.say)
        made.api = (messages_api if kind == MESSAGES else chat_api)(made.script)
        return made

    return start


@pytest.fixture
def messages_runs(project: Path, messages_api: StartSimulator) -> RecordedRuns:
    """The same on the Messages API alone, for what does not depend on the API."""
    return RecordedRuns.of(MESSAGES, project, messages_api)
