"""Fixtures for runs in which specialists call each other or are resumed."""

import asyncio

import pytest

from run_specialist.api.runner import Runner
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
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
def store(tmp_path, monkeypatch, files):
    """Return the URL of a store, and write a parent and its child."""
    monkeypatch.chdir(tmp_path)
    files()
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def hanging():
    """Return a tool that never ends, and an event that is set when it has started."""
    reached = asyncio.Event()

    async def hang(query: str) -> str:
        reached.set()
        await asyncio.Event().wait()
        return query

    return Tool("look", "Hangs.", hang), reached


@pytest.fixture
def desk(tmp_path):
    """Provide a store and the processes that use it one after another."""
    return StoredRunHarness(tmp_path)


@pytest.fixture
def spans():
    """Collect the telemetry spans of the test."""
    with recorded() as spans:
        yield spans
