"""A server or a tool that hangs is abandoned when the time limit requires it."""

import pytest

from run_specialist.record.messages import Usage
from run_specialist.tools.base import Tool
from tests.wire.limited_runs import LONG, Clock
from tests.wire.simulator import Gate, faults
from tests.wire.simulator.replies import says
from tests.wire.specialists import DONE, FORCED, Asker, looks, note, noting

pytestmark = pytest.mark.anyio


class Playing:
    """Plays replies in order, and sets a clock as each request arrives."""

    def __init__(self, clock, *moments):
        self._clock = clock
        self._moments = list(moments)

    def __call__(self, request):
        """Return the next reply."""
        self._clock.now, reply = self._moments.pop(0)
        return reply


async def test_x_14_a_hanging_request_is_cancelled_and_the_run_lands(ask):
    """A hanging request is cancelled when the working time is over; the next one is the landing, with the findings."""
    clock, gate = Clock(), Gate()
    script = Playing(clock, (53.5, looks("a")), (54, faults.Hang(gate)), (54, DONE))
    told = await ask(script, "time_limit: 1m", clock=clock)
    assert gate.reached.is_set()
    assert told.choices == [None, None, FORCED]
    assert told.requests[1].messages == told.requests[2].messages
    assert next(iter(told.requests[2].results.values())).startswith(note("a"))
    assert (told.outcome.status, told.outcome.answer) == ("landed", "what was found")
    assert (told.outcome.landing.reason, told.outcome.limits["turns"].used) == ("time", 2)


async def test_x_14_a_hanging_landing_request_is_cancelled_and_salvaged(ask_once):
    """A landing request that hangs is cancelled too; the findings so far become the answer, with a warning."""
    clock = Clock()
    script = Playing(clock, (53.5, looks("a")), (65.5, faults.Hang()), (66, faults.Hang()))
    told = await ask_once(script, "time_limit: 1m", clock=clock)
    assert told.choices == [None, None, FORCED]
    assert (told.outcome.status, told.outcome.exit_code, told.outcome.landing.how) == ("partial", 0, "salvage")
    assert note("a") in told.outcome.answer
    assert told.outcome.limits["time"].used == 66
    assert any(text.startswith("66 seconds used, more than the limit of 60 seconds") for text in told.outcome.warnings)
    assert (told.outcome.landing.requests, told.outcome.landing.usage) == (0, Usage())


async def test_x_14_a_stream_that_stops_midway_is_cancelled(messages_api, tmp_path):
    """A stream that stops midway is cancelled like a request without a reply."""
    clock, ask = Clock(), Asker(messages_api, tmp_path, stream=True)
    script = Playing(clock, (53.5, looks("a")), (54, looks("b", midway=Gate())), (54, DONE))
    told = await ask(script, "time_limit: 1m", clock=clock)
    assert told.choices == [None, None, FORCED]
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("landed", 1)


async def test_x_14_a_hanging_summary_request_is_cancelled(ask_once):
    """A summary request that hangs is cancelled when the working time is over; the run lands and loses nothing."""
    clock = Clock()
    notes = Playing(clock, (54, faults.Hang()), (54, says("- owls eat mice")))
    script = noting(notes, Playing(clock, (1, looks("a")), (53.5, looks("b")), (54, DONE)))
    told = await ask_once(script, "time_limit: 1m", "summarize_at: 1000", clock=clock, tools=[LONG])
    assert told.choices == [None, None, FORCED]
    assert LONG.function("b") in next(iter(told.requests[-1].results.values()))
    assert (told.outcome.status, told.outcome.landing.reason) == ("landed", "time")


async def test_x_14_a_hanging_tool_is_abandoned_at_the_end_of_the_working_time(ask_once):
    """A hanging tool is abandoned when the working time is over: the model gets an error, and the run lands.

    The call counts as failed.
    """
    clock, gate = Clock(), Gate()

    def hang(query):
        clock.now = 54
        gate.opened.wait(60)

    script = Playing(clock, (53.5, looks("a")), (54, DONE))
    told = await ask_once(script, "time_limit: 1m", clock=clock, tools=[Tool("look", "Hangs.", hang)])
    gate.open()
    assert "when the time of the run was up" in told.results[0][0]
    assert told.choices == [None, FORCED]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.failed) == (1, 1)
