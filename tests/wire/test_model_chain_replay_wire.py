"""Replays of runs that changed their model: each request goes to the model that it went to."""

import pytest

from run_specialist.api.runner import Runner
from tests.journals import load
from tests.wire.chat import faults as chat_faults
from tests.wire.chat import replies as chat_replies
from tests.wire.simulator import faults, replies

pytestmark = pytest.mark.anyio
GONE = faults.ApiError(404, "not_found_error", "model: it was retired")
NO_CREDIT = faults.ApiError(400, "invalid_request_error", "Your credit balance is too low.")
THINKS = replies.says(replies.thinking("hm"), "I read.", replies.tool_use("read", {"path": "notes/owls.md"}))


@pytest.fixture
def record(messages_runs, messages_api, chat_api, monkeypatch):
    """Return a function that records a run with a chain of models, which may end on the other API."""

    async def go(*script, models="sonnet,haiku", chat=(), **settings):
        for name, api in (("ANTHROPIC", messages_api([*script])), ("OPENAI", chat_api([*chat]))):
            monkeypatch.setenv(f"{name}_BASE_URL", api.base_url)
            monkeypatch.setenv(f"{name}_API_KEY", "test")
        async with Runner(root=messages_runs.root, model=models, store=messages_runs.url) as runner:
            await runner.run("looker", "What do owls eat?", **settings)
        return load(messages_runs.url)

    return go


async def same(runs, run, models):
    """Assert that a run replays the same, from the store and from a file; return the replay."""
    replayed = await runs.replay(run)
    assert replayed.difference is None
    assert [one.model for one in replayed.outcome.models] == models
    assert (await runs.replay_file(await runs.save(run))).difference is None
    return replayed


async def test_m_7_a_run_that_changed_its_model_replays_the_same(messages_runs, record):
    """A change in the middle: the same requests to both models."""
    run = await record(THINKS, NO_CREDIT, messages_runs.read("notes"), replies.answers("Mice."))
    replayed = await same(messages_runs, run, ["claude-sonnet-5-5", "claude-haiku-5-5"])
    assert replayed.requests == 4


async def test_m_7_a_change_at_the_first_request_replays_the_same(messages_runs, record):
    """Nothing was adapted yet, and the question is sent to the other model."""
    run = await record(GONE, messages_runs.read(), replies.answers("Mice."))
    await same(messages_runs, run, ["claude-sonnet-5-5", "claude-haiku-5-5"])


async def test_m_7_a_change_in_the_landing_replays_the_same(messages_runs, record):
    """The landing of the first model, and that of the second one on another rung."""
    run = await record(THINKS, NO_CREDIT, replies.says(replies.respond("Mice.")), tool_calls_limit=1)
    assert run.outcome["status"] == "landed"
    await same(messages_runs, run, ["claude-sonnet-5-5", "claude-haiku-5-5"])


@pytest.mark.exhaustive
async def test_m_7_two_changes_replay_the_same(messages_runs, record):
    """Three models of both APIs; the last one fails too, and the salvaged answer is the same."""
    gone = chat_faults.error(404, "The model does not exist.", code="model_not_found")
    chat = [chat_replies.calls("read", {"path": "notes"}), gone]
    script = [THINKS, NO_CREDIT, messages_runs.read("other"), faults.unauthorised()]
    run = await record(*script, models="sonnet,openai:some-model,haiku", chat=chat)
    assert run.outcome["status"] == "failed"
    await same(messages_runs, run, ["claude-sonnet-5-5", "openai:some-model", "claude-haiku-5-5"])
