"""Reading the events of a run as a stream and stopping it early loses nothing and leaves no task."""

import asyncio

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.tools.base import Tool
from tests.scripted_provider import ScriptedProvider, calls
from tests.unit.api.finder_scripts import ANSWER, LOOKS
from tests.unit.api.streaming import FINDER, StreamingHarness

LOOKS_ON = calls(("look", {"query": "for ever"}), first_id=2)


@pytest.fixture
async def desk(tmp_path):
    """Return a function that creates a desk with a script."""
    runners = []

    def make(*script, store=None):
        async def look(query: str) -> str:
            if query == "for ever":
                desk.reached.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    desk.released.set()
            return f"note on {query}"

        tools = [Tool("look", "Look.", look)]
        desk = StreamingHarness(Runner(provider=ScriptedProvider(script), root=tmp_path, store=store, tools=tools))
        runners.append(desk.runner)
        return desk

    yield make
    for runner in runners:
        await runner.aclose()


def others():
    """Return all tasks except the test's own."""
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.anyio
async def test_a_stream_yields_all_events_and_then_the_outcome(desk):
    """The stream has all events in order, then the outcome; a listener receives the same events."""
    heard, before = [], others()
    async with desk(LOOKS, ANSWER).stream(listener=heard.append) as stream:
        read = [event async for event in stream]
        again = [event async for event in stream]
    assert (read[0].event, read[-1].event) == ("started", "finished")
    assert read == heard
    assert again == []
    assert stream.outcome is read[-1].outcome
    assert (stream.outcome.status, stream.outcome.answer, stream.run.run_id) == ("answered", "mice", read[0].run_id)
    assert others() == before


@pytest.mark.anyio
async def test_events_arrive_while_the_run_works(desk):
    """Events arrive while the run works: the start of a call is read before the call ends."""
    one = desk(LOOKS_ON)
    async with asyncio.timeout(30), one.stream() as stream:
        async for event in stream:
            if event.event == "tool_call":
                assert event.phase == "started"
                await one.reached.wait()
                assert not one.released.is_set()
                break
    assert one.released.is_set()


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["break", "exception", "nothing read"])
async def test_s3_6_leaving_the_block_early_aborts_the_run(desk, how):
    """Leaving the block early aborts the run and keeps what was gathered.

    The tool in progress is cancelled first, and no task is left running.
    """
    one, before = desk(LOOKS, LOOKS_ON), others()

    async def read(stream):
        async for event in stream:
            if event.event == "tool_call" and event.id == "call_2":
                await one.reached.wait()
                if how == "exception":
                    raise KeyError(how)
                break

    stream = one.stream()
    try:
        async with asyncio.timeout(30), stream:
            await (one.reached.wait() if how == "nothing read" else read(stream))
    except KeyError:
        assert how == "exception"
    assert one.released.is_set()
    assert (stream.outcome.status, stream.outcome.tool_calls.used) == ("aborted", 2)
    assert "note on owls" in stream.outcome.answer
    await asyncio.sleep(0)
    assert others() == before


@pytest.mark.anyio
@pytest.mark.parametrize("block", [True, False])
async def test_s3_6_cancelling_the_reader_aborts_the_run(desk, block):
    """If the reader is cancelled, with or without a block, the run ends first and the cancellation then propagates."""
    one, before = desk(LOOKS, LOOKS_ON), others()
    stream = one.stream()

    async def read():
        if block:
            async with stream:
                _ = [event async for event in stream]
        else:
            _ = [event async for event in stream]

    async with asyncio.timeout(30):
        task = asyncio.create_task(read())
        await one.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert one.released.is_set()
    assert "note on owls" in stream.outcome.answer
    assert others() == before


@pytest.mark.anyio
async def test_s3_6_leaving_a_plain_loop_aborts_the_run(desk):
    """Without a block, leaving the loop aborts the run too, though without waiting for it."""
    one = desk(LOOKS_ON)
    async with asyncio.timeout(30):
        async for event in one.stream():
            if event.event == "tool_call":
                break
        await one.reached.wait()
        await one.released.wait()


@pytest.mark.anyio
async def test_s3_6_after_an_abort_the_events_continue_to_the_last(desk):
    """After an abort the events continue to the last one."""
    one = desk(LOOKS, LOOKS_ON)
    async with asyncio.timeout(30), one.stream() as stream:
        read = []
        async for event in stream:
            read.append(event.event)
            if event.event == "tool_call" and event.id == "call_2":
                stream.abort()
    assert read[-1] == "finished"
    assert stream.outcome.status == "aborted"


@pytest.mark.anyio
async def test_reading_the_outcome_before_the_end_raises(desk):
    """Asking for the outcome before the end raises a one-line error that says what to wait for."""
    async with desk(LOOKS, ANSWER).stream() as stream:
        with pytest.raises(UsageError, match="no outcome yet"):
            _ = stream.outcome


@pytest.mark.anyio
async def test_s3_6_a_cancelled_run_keeps_its_outcome_in_ended(desk):
    """After a run was cancelled from outside, the caller gets the cancellation and `ended` has the outcome.

    Before that `ended` is None.
    """
    one = desk(LOOKS, LOOKS_ON)
    prepared = await one.runner.prepare(FINDER, "What do owls eat?")
    assert prepared.ended is None
    async with asyncio.timeout(30):
        task = asyncio.create_task(prepared.outcome())
        await one.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (prepared.ended.status, prepared.ended.tool_calls.used) == ("aborted", 2)
    assert "note on owls" in prepared.ended.answer
