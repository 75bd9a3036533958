"""Many runs against APIs that enforce limits: next to nothing is refused, and every run answers."""

import asyncio
import threading
import time

import pytest

from run_specialist.providers import anthropic, openai_chat
from run_specialist.providers.admission import GATES, Gate, sleep_unless_woken
from run_specialist.record.events import Retrying, Waiting
from tests.loop_jobs import job, outcome_of
from tests.wire.limited_api import TURNS, at_most, limited

pytestmark = pytest.mark.anyio
RUNS = 50


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


def provider_of(client, at_once=None):
    """Return a provider for a client of either SDK."""
    is_messages = type(client).__name__ == "AsyncAnthropic"
    provider = (anthropic.AnthropicProvider if is_messages else openai_chat.ChatProvider)("haiku", client)
    provider.requests_at_once = at_once
    return provider


def made(api, kind="messages"):
    """Return a client for a server."""
    module = anthropic if kind == "messages" else openai_chat
    return module.make_client(base_url=api.url, api_key="test")


async def crowd(api, runs=RUNS, kind="messages", at_once=None, events=None, **settings):
    """Run many concurrent jobs and return their outcomes."""
    async with made(api, kind) as client:
        provider = provider_of(client, at_once)
        return await asyncio.gather(*(outcome_of(job(provider, 9, **settings), events) for _ in range(runs)))


def answered(outcomes):
    """Return how many runs have answered."""
    return sum((outcome.status, outcome.answer) == ("answered", "mice") for outcome in outcomes)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("kind", ["messages", "chat"])
@pytest.mark.parametrize("status", [429, 529])
async def test_r2_fifty_runs_adapt_to_what_the_api_takes(real_time, kind, status):
    """After the first bursts nothing is refused any more, although the API accepts only four concurrent requests."""
    # On a busy machine too, a reply takes longer than sending a request: all requests that the gate admits arrive at
    # the same time.
    with limited(at_most(4), status=status, seconds=0.05) as api:
        outcomes = await crowd(api, kind=kind)
    assert answered(outcomes) == RUNS
    assert api.accepted == RUNS * TURNS
    assert len(api.refused) < RUNS
    assert [before for before in api.refused if before > api.accepted * 0.7] == []


async def test_r3_a_ceiling_keeps_everything_from_being_refused(real_time):
    """With as many concurrent requests as the API accepts, none is refused."""
    with limited(at_most(4)) as api:
        outcomes = await crowd(api, at_once=4)
    assert (answered(outcomes), api.refused, api.most_at_once) == (RUNS, [], 4)


async def test_r2_without_refusals_nobody_waits(real_time):
    """Fifty runs are all in progress at the same time at an API that accepts them."""
    with limited(at_most(1000), together=RUNS) as api:
        events = []
        outcomes = await crowd(api, events=events)
    assert (answered(outcomes), api.refused) == (RUNS, [])
    assert api.most_at_once == RUNS
    assert [event for event in events if isinstance(event, Waiting)] == []


async def test_r5_a_wait_that_one_run_meets_is_met_by_no_other(shared_clock):
    """While the API requests a wait of 20 s, one request was refused, and all others wait at the gate."""
    until = []

    def rule(api):
        if api.accepted == 0 and not until:
            until.append(shared_clock.now + 20)
        return shared_clock.now >= until[0]

    with limited(rule, wait=20) as api:
        async with made(api) as client:
            provider, events = provider_of(client), []
            first = asyncio.create_task(outcome_of(job(provider, 9), events))
            while not api.refused:  # noqa: ASYNC110 - the server is in another thread
                await asyncio.sleep(0.001)
            outcomes = [*await asyncio.gather(*(outcome_of(job(provider, 9)) for _ in range(20))), await first]
    assert answered(outcomes) == 21
    assert len(api.refused) == 1
    assert [event.seconds for event in events if isinstance(event, Retrying)] == [20]


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


async def test_r1_another_key_has_a_gate_of_its_own(real_time):
    """What one key may not do, another one may."""
    with limited(at_most(100)) as api:
        async with (
            anthropic.make_client(base_url=api.url, api_key="one") as first,
            anthropic.make_client(base_url=api.url, api_key="two") as second,
        ):
            one, two = provider_of(first, 1), provider_of(second, 1)
            outcomes = await asyncio.gather(*(outcome_of(job(each, 9)) for each in (one, two) for _ in range(5)))
            assert GATES.of(first) is not GATES.of(second)
    assert answered(outcomes) == 10
    assert api.most_at_once == 2
