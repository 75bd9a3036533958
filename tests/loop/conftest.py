"""Fixtures for runs in which specialists call each other or are resumed."""

import pytest

from run_specialist.api.runner import Runner
from tests.loop.tool_runs import LOOKUP
from tests.loop_jobs import LOOK
from tests.projects import project
from tests.scripted_specialists import write
from tests.spans import recorded
from tests.stored_runs import StoredRunHarness


@pytest.fixture
def run_lead(tmp_path, monkeypatch):
    """Return a function that runs `lead` with a cast, and returns the outcome and the events."""
    monkeypatch.chdir(tmp_path)

    async def go(cast, *, tools=(LOOK,), max_depth=2, store=None, **settings):
        events = []
        async with Runner(provider=cast, tools=tools, max_depth=max_depth, store=store) as runner:
            outcome = await runner.run("lead", "What is known?", listener=events.append, **settings)
        cast.assert_used_up()
        return outcome, events

    return go


@pytest.fixture
def files(tmp_path):
    """Write a parent specialist and its child, with optional extra lines for each."""

    def make(lead=(), finder=()):
        write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 10", *lead)
        write(tmp_path, "finder", "tool_calls_limit: 6", *finder)

    return make


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Create a project with a module and an empty home directory, and change into the project."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    with project(tmp_path / "project") as made:
        monkeypatch.chdir(made.root)
        made.write("PKG/tools.py", *LOOKUP)
        yield made


@pytest.fixture
def desk(tmp_path):
    """Provide a store and the processes that use it one after another."""
    return StoredRunHarness(tmp_path)


@pytest.fixture
def spans():
    """Collect the telemetry spans of the test."""
    with recorded() as spans:
        yield spans
