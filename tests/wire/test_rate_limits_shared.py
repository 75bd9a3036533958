"""The gate between runs: nested ones, those of several Runners, and those that may not wait."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.loop.run import Run
from run_specialist.providers.admission import GATES, Gate
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.record.events import Retrying, Waiting
from run_specialist.record.outcome import Exit
from tests.forked_program import ForkedProgram
from tests.loop_jobs import job, outcome_of
from tests.wire.limited_api import at_most, limited
from tests.wire.simulator import Gate as ReplyGate
from tests.wire.simulator import faults
from tests.wire.simulator.replies import answers, calls

pytestmark = pytest.mark.anyio


@pytest.fixture
def files(tmp_path):
    """Specialists that ask one another, three levels deep."""
    for name, agents in (("lead", "[middle]"), ("middle", "[deep]"), ("deep", "[]")):
        head = f"---\nname: {name}\ndescription: Asks.\ntools: []\nagents: {agents}\n---\n"
        (tmp_path / f"{name}.md").write_text(f"{head}You are {name}.\n")
    return tmp_path


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

    async with make_client(base_url=api.base_url, api_key="test") as client:
        provider = AnthropicProvider("haiku", client)
        async with Runner(root=files, dir=files, provider=provider, requests_at_once=1) as runner:
            outcome = await asyncio.wait_for(
                runner.run("lead", "What?", listener=look, **({"watch": look} if stream else {})), 60
            )
    assert (outcome.status, outcome.answer) == ("answered", "mice"), outcome.error
    assert len(api.requests) == 2 + 2 * (2 + 2)
    assert most == [1]


async def test_r1_two_runners_share_a_closed_gate(messages_api, files):
    """A wait requested from one Runner immediately ends the runs of another one if they may not wait that long."""
    api, events = messages_api([faults.rate_limited(900)]), []
    for attempt in range(2):
        async with (
            make_client(base_url=api.base_url, api_key="test") as client,
            Runner(root=files, dir=files, provider=AnthropicProvider("haiku", client)) as runner,
        ):
            outcome = await runner.run("deep", "What?", listener=events.append)
        assert (outcome.status, outcome.exit_code) == ("failed", Exit.PROVIDER), attempt
        assert outcome.error == (
            "the API answered 429: This request would exceed your rate limit.; try again in 900 seconds, as the API "
            "requests, longer than patience allows (120 seconds)"
        )
    assert len(api.requests) == 1
    assert [event for event in events if isinstance(event, Retrying | Waiting)] == []


async def test_r9_without_patience_a_closed_gate_is_an_error_at_once(messages_api):
    """`patience: 0`, and a client without retries, get the error of the refusal and send nothing."""
    api = messages_api([faults.rate_limited(900)])
    for options, settings in (({}, {}), ({}, {"patience": 0}), ({"max_retries": 0}, {})):
        async with make_client(base_url=api.base_url, api_key="test", **options) as client:
            outcome = await outcome_of(job(AnthropicProvider("haiku", client), **settings))
        assert outcome.error.startswith("the API answered 429: This request would exceed your rate limit.; try again")
    assert len(api.requests) == 1


async def test_r6_with_enough_patience_the_closing_is_waited_for(messages_api):
    """The run that was refused, and another one, both end with an answer; the second one has waited at the gate."""
    api, events = messages_api([faults.rate_limited(900), answers("mice"), answers("mice")]), []
    async with make_client(base_url=api.base_url, api_key="test") as client:
        provider, patient = AnthropicProvider("haiku", client), {"patience": None}
        is_refused = asyncio.Event()
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
    async with make_client(base_url=api.base_url, api_key="test") as client:
        provider = AnthropicProvider("haiku", client)
        provider.requests_at_once = 1
        first = asyncio.create_task(outcome_of(job(provider)))
        await asyncio.to_thread(held.wait_for_request)
        gate = GATES.of(client)
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
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from tests.loop_jobs import job

async def main():
    async with make_client(base_url=sys.argv[1], api_key="test") as client:
        provider = AnthropicProvider("haiku", client)
        provider.requests_at_once = 1
        runs = [Run(job(provider), lambda event: print(event.event, flush=True)) for _ in range(3)]
        await asyncio.gather(*(run.outcome() for run in runs))

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("ended")
"""


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
