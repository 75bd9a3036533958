"""A Runner outlives the event loops that it is used from; its connections do not."""

import asyncio
import gc

import pytest

from run_specialist import Runner, Specialist
from tests.wire.simulator.replies import calls, says

FORCED = {"type": "tool", "name": "respond"}
LOOKER = Specialist(name="looker", description="Looks.", prompt="Look.")


# Python warns about a socket that was not closed before its loop ended.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_runner_may_be_used_from_one_loop_after_the_other(messages_api, monkeypatch, tmp_path, caplog):
    """Connections of a closed loop are not reused, and closing them later logs nothing."""
    api = messages_api([says("one"), says("two")])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
    runner = Runner(model="haiku", root=tmp_path, store="none")
    assert [asyncio.run(runner.run(LOOKER, "What?")).answer for _ in range(2)] == ["one", "two"]
    asyncio.run(runner.aclose())
    del runner
    gc.collect()
    assert not caplog.records


NATIVE = {"tool_calls": "native", "first_search": "off"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_g2_what_an_endpoint_ignores_is_known_in_the_next_loop_too(messages_api, monkeypatch, tmp_path):
    """A forced choice that was answered in text is not sent again by this Runner, whatever loop it runs in."""
    api = messages_api([calls("ls", {}), says("one"), calls("ls", {}), says("two")])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
    runner = Runner(model="haiku", root=tmp_path, store="none")
    outcomes = [asyncio.run(runner.run(LOOKER, "What?", tool_calls_limit=1, **NATIVE)) for _ in range(2)]
    asyncio.run(runner.aclose())
    del runner
    gc.collect()
    assert [outcome.landing.how for outcome in outcomes] == ["force", "order"]
    assert [sent.tool_choice for sent in api.requests] == [None, FORCED, None, None]
