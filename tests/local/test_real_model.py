"""A real model on llama.cpp's server through both APIs: it ignores forced choices and writes calls as text.

Only what must hold whatever a model does is asserted, so another model or version cannot break these tests.
"""

import asyncio

import pytest

from bench.local_models.leaked import has_leaked_call
from run_specialist.api.runner import Runner
from run_specialist.budget import MAX_REQUESTS
from run_specialist.record.events import Called, Finished
from tests.leak_check import Census, left_since

QUESTION = "How many owls are there?"
LIMIT = 2
SECONDS = 10
"""Time limit of a run, which it needs on a busy machine [s]."""
REPLY = 48
"""Maximum length of a first attempt and of a landing; the model may repeat itself without end [tokens]."""
MODELS = {"messages": "local", "chat": "openai:local"}
OFFERED = {"grep", "read", "respond"}


@pytest.fixture(params=list(MODELS))
def run(request, serve, project, monkeypatch):
    """One question to the real model through one API: the outcome, the events, and what was left over afterwards."""
    monkeypatch.setattr("run_specialist.loop.account.MAX_TOKENS", REPLY)
    monkeypatch.setattr("run_specialist.loop.transcript._LANDING_TOKENS", REPLY)
    events, before = [], Census.take()

    async def ask():
        async with Runner(root=project, model=MODELS[request.param], store="none") as runner:
            return await runner.run(
                "counter", QUESTION, listener=events.append, tool_calls_limit=LIMIT, time_limit=SECONDS
            )

    with serve() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        outcome = asyncio.run(ask())
    return outcome, events, server, left_since(before)


def test_s0_1_s0_6_s0_10_with_a_real_model(run):
    """Whatever a real model does: an outcome, no call beyond the limit, a short landing, nothing left over."""
    outcome, events, server, left = run
    started = [event for event in events if isinstance(event, Called) and event.phase == "started"]
    assert outcome.tool_calls.used == len(started) <= outcome.tool_calls.limit == LIMIT
    assert outcome.status in {"answered", "landed", "partial", "failed"}
    assert outcome.answer.strip() or outcome.status == "failed"
    assert not has_leaked_call(outcome.answer, OFFERED)
    assert outcome.landing is None or 0 <= outcome.landing.requests <= MAX_REQUESTS
    assert events[-1] == Finished(outcome)
    assert outcome.usage.output_tokens > 0 or outcome.error
    assert server.process.returncode == 0
    assert left == []
