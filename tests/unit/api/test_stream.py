"""Reading the events of a run as a stream and stopping it early loses nothing and leaves no task."""

import asyncio

import pytest

from run_specialist.api.runner import Runner, Stream
from run_specialist.errors import SpecialistNotFound, UsageError
from run_specialist.providers.scripted import OffScript, ScriptedProvider, calls
from run_specialist.tools.base import Tool
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
async def test_a_failing_listener_does_not_stop_the_stream(desk):
    """A listener that fails is removed with a warning, and the stream continues."""

    def listen(event):
        raise KeyError(event.event)

    async with desk(LOOKS, ANSWER).stream(listener=listen) as stream:
        read = [event.event async for event in stream]
    assert (read[0], read[-1]) == ("started", "finished")
    assert [warning for warning in stream.outcome.warnings if "the listener failed" in warning]


@pytest.mark.anyio
async def test_an_invalid_call_raises_when_the_stream_starts(desk):
    """An invalid call raises on entering the block or on the first event, and there is no outcome."""
    runner = desk().runner
    with pytest.raises(SpecialistNotFound):
        async with runner.stream("nobody", "What?"):
            pass
    stream = runner.stream("nobody", "What?")
    with pytest.raises(SpecialistNotFound):
        _ = [event async for event in stream]
    await stream.aclose()
    with pytest.raises(UsageError, match="has not started"):
        _ = stream.outcome


@pytest.mark.anyio
async def test_reading_the_outcome_before_the_end_raises(desk):
    """Asking for the outcome before the end raises a one-line error that says what to wait for."""
    async with desk(LOOKS, ANSWER).stream() as stream:
        with pytest.raises(UsageError, match="no outcome yet"):
            _ = stream.outcome


@pytest.mark.anyio
async def test_an_unexpected_exception_is_raised_to_the_reader(desk):
    """An exception that no run survives, here of a broken test double, is raised to the reader."""
    with pytest.raises(OffScript):
        async with desk().stream() as stream:
            _ = [event async for event in stream]


@pytest.mark.anyio
async def test_s4_5_a_resumed_run_can_be_streamed(desk, tmp_path):
    """A stream also reads a resumed run: it accepts anything that prepares a run."""
    store = f"sqlite:///{tmp_path}/runs.db"
    first = desk(LOOKS, ANSWER, store=store)
    await first.runner.run(FINDER, "What do owls eat?", tool_calls_limit=1)
    second = desk(calls(("look", {"query": "bats"}), first_id=2), ANSWER, store=store)
    async with Stream(lambda: second.runner.resume("last", "And bats?", tool_calls_limit=5)) as stream:
        read = [event.event async for event in stream]
    assert "resumed" in read
    assert stream.outcome.tool_calls.used == 2


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


@pytest.mark.anyio
async def test_s3_6_a_timeout_around_a_run_keeps_the_outcome(desk):
    """A timeout around a run with a hanging tool raises TimeoutError, and `ended` has the outcome."""
    one = desk(LOOKS, LOOKS_ON)
    prepared = await one.runner.prepare(FINDER, "What do owls eat?")

    async def wait():
        async with asyncio.timeout(None) as timeout:
            up = asyncio.create_task(one.reached.wait())
            up.add_done_callback(lambda _: timeout.reschedule(0))
            await prepared.outcome()

    with pytest.raises(TimeoutError):
        await wait()
    assert (prepared.ended.status, one.released.is_set()) == ("aborted", True)
    assert "note on owls" in prepared.ended.answer


@pytest.mark.anyio
async def test_ended_is_the_returned_outcome(desk):
    """`ended` is the object that `outcome` returned."""
    prepared = await desk(ANSWER).runner.prepare(FINDER, "What?")
    assert await prepared.outcome() is prepared.ended


@pytest.mark.anyio
async def test_two_simultaneous_readers_share_one_run(desk):
    """Two readers that start at the same time share one run, even while it is being prepared.

    Nobody could stop a second run.
    """
    runner = desk(LOOKS, ANSWER, LOOKS, ANSWER).runner
    prepared = []

    async def prepare():
        await asyncio.sleep(0)
        prepared.append(await runner.prepare(FINDER, "What do owls eat?"))
        return prepared[-1]

    stream = Stream(prepare)

    async def read():
        return [event.event async for event in stream]

    first, second = await asyncio.gather(read(), read())
    assert (len(prepared), (first + second).count("finished")) == (1, 1)
