"""A Runner outlives the event loops that it is used from; its connections do not."""

import asyncio
import gc

import pytest

from run_specialist import Runner, Specialist
from tests.wire.simulator.replies import says

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
