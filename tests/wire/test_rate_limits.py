"""The gate that all runs of a key share at APIs that enforce limits, and retries of requests on both APIs."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist.budget import Kind
from run_specialist.loop.retries import Retries
from run_specialist.loop.run import Run
from run_specialist.providers.admission import GATES, GENEROUS, Gate, sleep_unless_woken
from run_specialist.record.events import Requested, Retrying, Waiting
from run_specialist.record.outcome import Exit
from tests.forked_program import ForkedProgram
from tests.loop_jobs import job, outcome_of
from tests.wire.chat import faults as chat_faults
from tests.wire.chat import replies as chat_replies
from tests.wire.connected import asked, connected, runner_on
from tests.wire.json_mode import JSON_MODE, looks, responds
from tests.wire.liar import plays
from tests.wire.liar.lying_proxy import Liar
from tests.wire.limited_api import TURNS, at_most, limited
from tests.wire.serving import write_specialist
from tests.wire.simulator import Gate as ReplyGate
from tests.wire.simulator import faults, replies
from tests.wire.simulator.replies import answers, calls, says

RUNS, MANY = 16, 30


@pytest.fixture
def real_time(monkeypatch):
    """Let requests at a gate wait as they do outside of tests."""
    monkeypatch.setattr(Gate, "clock", staticmethod(time.monotonic))
    monkeypatch.setattr(Gate, "sleep", staticmethod(sleep_unless_woken))


class SharedClock:
    """One clock for the server and the gates; it advances when a request has nothing else to wait for."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(Gate, "clock", staticmethod(lambda: self.now))
        monkeypatch.setattr(Gate, "sleep", staticmethod(self._sleep))

    async def _sleep(self, future, seconds):
        until = self.now + seconds
        # All replies are here long before.
        await asyncio.wait([future], timeout=0.05)
        if not future.done():
            self.now = max(self.now, until)


@pytest.fixture
def shared_clock(monkeypatch):
    """A clock that the server and the gates share."""
    return SharedClock(monkeypatch)


async def crowd(api, runs=RUNS, at_once=None, events=None):
    """Run many concurrent jobs and return their outcomes."""
    async with connected(api.url, retries=2) as provider:
        provider.requests_at_once = at_once
        return await asyncio.gather(*(outcome_of(job(provider, 9), events) for _ in range(runs)))


def answered(outcomes):
    """Return how many runs have answered."""
    return sum((outcome.status, outcome.answer) == ("answered", "mice") for outcome in outcomes)


@pytest.mark.exhaustive
async def test_r2_many_runs_adapt_to_what_the_api_takes(real_time):
    """After the first bursts nothing is refused any more, although the API accepts only four concurrent requests."""
    # On a busy machine too, a reply takes longer than sending a request: all requests that the gate admits arrive at
    # the same time.
    with limited(at_most(4), seconds=0.05) as api:
        outcomes = await crowd(api, MANY)
    assert answered(outcomes) == MANY
    assert api.accepted == MANY * TURNS
    assert len(api.refused) < MANY
    assert [before for before in api.refused if before > api.accepted * 0.7] == []


@pytest.mark.exhaustive
async def test_r5_a_wait_that_one_run_meets_is_met_by_no_other(shared_clock):
    """While the API requests a wait of 20 s, one request was refused, and all others wait at the gate."""
    until = []

    def rule(api):
        if api.accepted == 0 and not until:
            until.append(shared_clock.now + 20)
        return shared_clock.now >= until[0]

    with limited(rule, wait=20) as api:
        events = []
        async with connected(api.url, retries=2) as provider:
            first = asyncio.create_task(outcome_of(job(provider, 9), events))
            # The refusal has arrived, not only been sent.
            while not any(isinstance(event, Retrying) for event in events):  # noqa: ASYNC110 - a listener may not wait
                await asyncio.sleep(0.001)
            outcomes = [*await asyncio.gather(*(outcome_of(job(provider, 9)) for _ in range(20))), await first]
    assert answered(outcomes) == 21
    assert len(api.refused) == 1
    assert [event.seconds for event in events if isinstance(event, Retrying)] == [20]


@pytest.mark.exhaustive
def test_r1_runs_in_two_event_loops_share_the_limit(real_time):
    """Two threads, each with its event loop and its client, have no more concurrent requests than one."""
    results = []
    with limited(at_most(3)) as api:

        def play():
            results.extend(asyncio.run(crowd(api, 10, at_once=3)))

        threads = [threading.Thread(target=play) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (answered(results), api.refused, api.most_at_once) == (20, [], 3)


@pytest.fixture
def files(project):
    """Specialists that ask one another, three levels deep."""
    for name, agents in (("lead", "[middle]"), ("middle", "[deep]"), ("deep", "[]")):
        write_specialist(project, name, "tools: []", f"agents: {agents}", body=f"You are {name}.")
    return project


def family(request):
    """Let each specialist ask the next one twice concurrently; the last one answers."""
    system = request.body["system"][0]["text"]
    if "You are deep." in system or request.results:
        return answers("mice")
    name = "middle" if "You are lead." in system else "deep"
    return calls("delegate", *({"specialist": name, "query": f"{number}?"} for number in range(2)))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_r1_a_parent_does_not_hold_a_place_while_its_children_work(messages_api, files, stream):
    """With one concurrent request, runs that wait for two children each, on three levels, all end."""
    api, most = messages_api(family), [0]

    def look(_):
        most[0] = max(most[0], *(len(gate.under_way) for gate in GATES._gates.values()))

    async with runner_on(api, retries=2, root=files, requests_at_once=1) as runner:
        watch = {"watch": look} if stream else {}
        outcome = await asyncio.wait_for(runner.run("lead", "What?", listener=look, **watch), 60)
    assert (outcome.status, outcome.answer) == ("answered", "mice"), outcome.error
    assert len(api.requests) == 2 + 2 * (2 + 2)
    assert most == [1]


async def test_r9_without_patience_a_closed_gate_is_an_error_at_once(messages_api):
    """`patience: 0`, and a client without retries, get the error of the refusal and send nothing."""
    api = messages_api([faults.rate_limited(900)])
    for settings in ({}, {"patience": 0}, {"retries": 0}):
        outcome = await asked(api, **{"retries": 2, **settings})
        assert outcome.error.startswith("the API answered 429: This request would exceed your rate limit.; try again")
    assert len(api.requests) == 1


@pytest.mark.exhaustive
async def test_r6_with_enough_patience_the_closing_is_waited_for(messages_api):
    """The run that was refused, and another one, both end with an answer; the second one has waited at the gate."""
    api, events = messages_api([faults.rate_limited(900), answers("mice"), answers("mice")]), []
    patient, is_refused = {"patience": None}, asyncio.Event()
    async with connected(api, retries=2) as provider:
        first = Run(job(provider, **patient), lambda event: is_refused.set() if isinstance(event, Retrying) else None)
        task = asyncio.create_task(first.outcome())
        await is_refused.wait()
        second = await outcome_of(job(provider, **patient), events)
        outcome = await task
    assert (outcome.answer, second.answer) == ("mice", "mice")
    waits = [event for event in events if isinstance(event, Waiting)]
    assert [event.phase for event in waits] == ["started", "finished"]
    assert waits[0].reason == "the API answered 429: This request would exceed your rate limit."
    assert 890 <= waits[0].seconds <= 900 <= waits[1].seconds + 1


async def forever(future, seconds):
    """Sleep until another request wakes this one."""
    await future


@pytest.mark.parametrize("how", ["abort", "cancel", "time limit"])
async def test_r8_the_end_of_a_run_ends_its_wait_at_the_gate(messages_api, monkeypatch, how):
    """A run that waits for a place ends immediately, keeps its results, and frees its place in the queue."""
    monkeypatch.setattr(Gate, "sleep", staticmethod(forever))
    held = ReplyGate()
    api = messages_api([replace(answers("mice"), gate=held), answers("late")])
    async with connected(api, retries=2) as provider:
        provider.requests_at_once = 1
        first = asyncio.create_task(outcome_of(job(provider)))
        await asyncio.to_thread(held.wait_for_request)
        gate = GATES.of(provider.client)
        limits = {Kind.TIME: 0.2} if how == "time limit" else {}
        waiting = Run(job(provider, limits=limits))
        task = asyncio.create_task(waiting.outcome())
        while not gate.waiting:  # noqa: ASYNC110 - a gate has no event for it
            await asyncio.sleep(0.001)
        if how == "abort":
            waiting.abort()
        elif how == "cancel":
            task.cancel()
        if how == "cancel":
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            outcome = await task
            assert outcome.status == ("aborted" if how == "abort" else "failed")
        assert (gate.waiting, len(gate.under_way), len(api.requests)) == (0, 1, 1)
        held.open()
        assert (await first).answer == "mice"
        assert (await outcome_of(job(provider))).answer == "late"
        assert len(gate.under_way) == 0


WAITS = """
import asyncio, sys
from run_specialist.loop.run import Run
from tests.loop_jobs import job
from tests.wire.connected import connected

async def main():
    async with connected(sys.argv[1]) as provider:
        provider.requests_at_once = 1
        runs = [Run(job(provider), lambda event: print(event.event, flush=True)) for _ in range(3)]
        await asyncio.gather(*(run.outcome() for run in runs))

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.exhaustive
def test_r8_ctrl_c_ends_a_program_whose_runs_wait_at_the_gate():
    """One run is under way and two wait; all of them end with an outcome, and the program ends."""
    with limited(at_most(9), seconds=3600) as api:
        process = ForkedProgram(
            [sys.executable, "-W", "error", "-c", WAITS, api.url],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ},
            cwd=Path.cwd(),
        )
        lines = [process.stdout.readline().strip() for _ in range(8)]
        assert sorted(lines) == ["request"] * 3 + ["started"] * 3 + ["waiting"] * 2
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert rest.split() == ["finished"] * 3 + ["ended"]
    assert api.accepted == 1


def final(fault):
    """Return a failure that is not to be tried again."""
    return replace(fault, headers={**fault.headers, "x-should-retry": "false"})


async def state_after(api, *, watch=None, **settings):
    """Return the gate after a run."""
    async with connected(api, retries=2) as provider:
        await outcome_of(job(provider, **settings), watch=watch)
        return GATES.of(provider.client)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("fault", "halves", "closes"),
    [
        (faults.rate_limited(), True, False),
        (faults.rate_limited(900), True, True),
        (faults.overloaded(), True, False),
        (faults.ApiError(503, "api_error", "no slot"), True, False),
        (final(faults.overloaded()), False, False),
        (final(faults.rate_limited(900)), True, True),
        (faults.server_error(), False, False),
        (faults.ConnectionReset(), False, False),
    ],
    ids=lambda value: f"{value.status}" if hasattr(value, "status") else str(value),
)
async def test_r2_r5_only_refusals_count(messages_api, fault, halves, closes):
    """429, 503 and 529 do, unless they are final; other failures leave the gate as it is, and no place is lost."""
    state = await state_after(messages_api([fault]), patience=0)
    assert (state.most == GENEROUS // 2, state.most is None) == (halves, not halves)
    assert bool(state.closings) is closes
    assert not state.under_way


async def test_r2_an_overload_in_mid_stream_counts(messages_api):
    """An `error` event in the middle of a reply is a refusal, although its status is 200."""
    api = messages_api([faults.ErrorEvent(says("The first half of an answer."), after_events=4)])
    state = await state_after(api, watch=lambda delta: None, patience=0)
    assert (state.most, state.under_way) == (GENEROUS // 2, set())


SENTENCE = "The first half of a long answer that never came to its end."
HALF = {"choices": [{"delta": {"content": "The first half"}}]}


class Api:
    """One of the two APIs, with what it sends."""

    def __init__(self, name, start, *, streams):
        self._start = start
        self.streams = streams
        if name == "messages":
            self.look = replies.calls("look", {"query": "a"})
            self.answer = replies.answers("mice")
            self.limited, self.reset = faults.rate_limited, faults.ConnectionReset()
            self.busy = faults.overloaded()
            self.error_event = faults.ErrorEvent(replies.says(SENTENCE), after_events=5)
            self.broken = faults.BrokenOff(replies.says(SENTENCE), after_events=5)
        else:
            self.look = chat_replies.calls("look", {"query": "a"})
            self.answer = chat_replies.answers("mice")
            self.limited, self.reset = chat_faults.rate_limited, chat_faults.ConnectionReset()
            self.busy = chat_faults.error(503, "busy", type="server_error")
            overloaded = {"error": {"message": "busy", "code": 503}}
            self.error_event = chat_faults.Stream((HALF, overloaded)) if streams else self.busy
            self.broken = chat_faults.BrokenOff(chat_replies.says(SENTENCE), after_chunks=4)

    def serve(self, *script, **options):
        """Start a simulator."""
        return self._start(list(script), **options)

    async def run(self, server, events=None, shown=None, retries=2, **settings):
        """Run a job and return its outcome."""
        watch = (lambda delta: None if shown is None else shown.append(delta.text)) if self.streams else None
        return await asked(server, 9, retries=retries, events=events, watch=watch, **settings)


@pytest.fixture(params=["messages, whole", "messages, streamed", "chat, whole", "chat, streamed"])
def api_retries(request, messages_api, chat_api):
    """Both APIs, with whole replies and with streamed ones."""
    name, how = request.param.split(", ")
    return Api(name, messages_api if name == "messages" else chat_api, streams=how == "streamed")


def waits_in(events):
    """Return the waits among events, as status and attempt."""
    return [(event.status, event.attempt) for event in events if isinstance(event, Retrying)]


@pytest.mark.exhaustive(one_in=3)
async def test_w1_w2_two_429s_then_an_answer(api_retries):
    """The same bytes are sent three times; turns and bill are those of a run without failures."""
    events = []
    server = api_retries.serve(api_retries.look, api_retries.limited(3), api_retries.limited(2), api_retries.answer)
    outcome = await api_retries.run(server, events)
    calm = await api_retries.run(api_retries.serve(api_retries.look, api_retries.answer))
    assert (outcome.status, outcome.answer) == ("answered", "mice")
    assert waits_in(events) == [(429, 1), (429, 2)]
    assert [event.seconds for event in events if isinstance(event, Retrying)] == [3, 2]
    assert all("429" in event.reason and "try again" not in event.reason for event in events if waits_in([event]))
    assert server.requests[1].raw == server.requests[2].raw == server.requests[3].raw
    assert [request.headers["x-stainless-retry-count"] for request in server.requests] == ["0", "0", "1", "2"]
    assert (outcome.usage, outcome.cost_usd, outcome.limits["turns"]) == (
        calm.usage,
        calm.cost_usd,
        calm.limits["turns"],
    )
    assert len([event for event in events if isinstance(event, Requested)]) == 2


@pytest.mark.exhaustive
async def test_w1_an_overload_for_longer_than_the_patience_fails_resumably(api_retries):
    """After a minute of overload the error has the reason, the number of retries, and the advice."""
    events, server = [], api_retries.serve(api_retries.look, *[api_retries.busy] * 20, all_used=False)
    outcome = await api_retries.run(server, events, patience=60)
    count = len(server.requests) - 2
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.PROVIDER)
    assert outcome.error.endswith(f"try again later (retried {count} times in 60 s)")
    assert 8 <= count <= 13
    assert "note on 'a'" in outcome.answer
    assert len(waits_in(events)) == count


async def test_w1_a_server_that_is_not_up_yet_is_waited_for(api_retries, monkeypatch):
    """A refused connection has no status; once the server listens, the run continues."""
    server, events = api_retries.serve(api_retries.answer), []
    async with Liar(server.base_url, plays.refuses, lambda body: False) as door:
        door.refuse()

        async def open_at_last(seconds):
            if len(waits_in(events)) == 3:
                await door.listen()

        monkeypatch.setattr(Retries, "sleep", staticmethod(open_at_last))
        outcome = await api_retries.run(door.url, events)
    assert outcome.answer == "mice"
    assert waits_in(events) == [(None, 1), (None, 2), (None, 3)]
    reasons = {event.reason for event in events if isinstance(event, Retrying)}
    assert all(reason.startswith("cannot reach http://127.0.0.1") for reason in reasons)


async def test_w1_w6_an_error_event_in_mid_stream_is_retried(api_retries):
    """An overload in the middle of a reply is retried like one before it, and its text is not part of the answer."""
    events, shown = [], []
    server = api_retries.serve(api_retries.error_event, api_retries.look, api_retries.error_event, api_retries.answer)
    outcome = await api_retries.run(server, events, shown)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "mice", 1)
    assert [attempt for _, attempt in waits_in(events)] == [1, 1]
    assert {status for status, _ in waits_in(events)} <= {503, 529}
    assert ("The first half" in "".join(shown)) is api_retries.streams
    assert server.requests[0].raw == server.requests[1].raw


async def test_w4_w6_a_reply_that_always_breaks_off_is_tried_three_times(api_retries):
    """Each attempt may be billed, so there are three; the text that streamed is the salvage."""
    events, server = [], api_retries.serve(api_retries.broken, api_retries.broken, api_retries.broken)
    outcome = await api_retries.run(server, events)
    assert (outcome.status, waits_in(events)) == ("failed", [(None, 1), (None, 2)])
    assert outcome.answer.count("The first half") == api_retries.streams
    assert outcome.usage.total_tokens == 0


async def test_w6_the_text_of_a_broken_attempt_is_no_answer_once_another_succeeded(api_retries):
    """A later failure salvages what was gathered, and not the words of an attempt that another replaced."""
    server = api_retries.serve(api_retries.broken, api_retries.look, api_retries.busy, api_retries.busy)
    outcome = await api_retries.run(server, patience=0.3)
    assert outcome.status == "failed"
    assert "note on 'a'" in outcome.answer
    assert "The first half" not in outcome.answer


@pytest.mark.exhaustive(one_in=3)
async def test_w3_a_longer_wait_than_the_patience_is_an_error_at_once(api_retries):
    """The error says how long the API wants to be left alone, and the request was sent once."""
    events, server = [], api_retries.serve(api_retries.limited(900))
    outcome = await api_retries.run(server, events)
    assert "try again in 900 seconds, as the API requests, longer than patience allows (120 seconds)" in outcome.error
    assert (waits_in(events), len(server.requests)) == ([], 1)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("settings", [{"patience": 0}, {"retries": 0}], ids=["patience", "client"])
async def test_w7_without_patience_or_retries_of_the_client_a_request_is_sent_once(api_retries, settings):
    """`patience: 0` turns retries off, and so does a client that was made without them."""
    events, server = [], api_retries.serve(api_retries.busy)
    outcome = await api_retries.run(server, events, **settings)
    assert (outcome.status, waits_in(events), len(server.requests)) == ("failed", [], 1)
    assert "retried" not in outcome.error


@pytest.mark.parametrize("how", ["whole", "streamed"])
async def test_w6_g8_a_call_in_json_is_streamed_anew(chat_api, how):
    """With calls as JSON, the pieces of a call that broke off do not mix with those of the next attempt."""
    shown, half = [], chat_faults.BrokenOff(responds("a long answer of many pieces"), after_chunks=4)
    server = chat_api([looks("a"), half, responds("mice")])
    watch = (lambda delta: shown.append((delta.tool, delta.text))) if how == "streamed" else None
    outcome = await asked(server, **JSON_MODE, retries=2, watch=watch)
    assert (outcome.status, outcome.answer) == ("answered", "mice")
    assert server.requests[1].raw == server.requests[2].raw
    assert ("respond" in {tool for tool, _ in shown}) is (how == "streamed")


@pytest.mark.parametrize(("code", "retries"), [(socket.EAI_NONAME, 2), (socket.EAI_AGAIN, 4)])
async def test_w4_a_name_that_nobody_knows_is_tried_three_times(monkeypatch, code, retries):
    """An unknown name is rather misspelt than away, while a name server that does not answer is waited for."""

    def fail(*_, **__):
        raise socket.gaierror(code, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    events = []
    await asked("http://owl.test", retries=2, events=events, patience=3.5)
    assert retries <= len(waits_in(events)) <= retries + (code == socket.EAI_AGAIN)


async def test_w4_a_server_without_tls_is_tried_three_times():
    """A handshake that fails will hardly succeed in a minute."""

    async def refuse(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server, events = await asyncio.start_server(refuse, "127.0.0.1", 0), []
    port = server.sockets[0].getsockname()[1]
    async with server:
        outcome = await asked(f"https://127.0.0.1:{port}", retries=2, events=events)
    assert (waits_in(events), outcome.exit_code) == ([(None, 1), (None, 2)], Exit.PROVIDER)
