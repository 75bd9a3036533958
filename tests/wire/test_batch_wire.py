"""Batches over the wire: nothing is paid for twice, and an endpoint that is away for a while costs no item."""

import asyncio
import re
from collections import Counter

import pytest

from run_specialist import Runner
from tests.unit.batch.scripted_items import Clock
from tests.wire.serving import owl_project, write_specialist
from tests.wire.simulator import faults
from tests.wire.simulator.replies import answers, says, tool_use
from tests.wire.test_error_kinds_wire import OUT_OF_CREDIT

QUESTION = "What of {item}?"


def looks_then_answers(request, **options):
    """Play a model that searches twice and then answers."""
    turn = turn_of(request)
    if turn < 3:
        return says(tool_use("search", {"query": f"owls {turn}"}), **options)
    reply = answers(f"Owls eat mice, says {item_of(request)}.")
    return says(*reply.content, **options)


def item_of(request):
    """Return the item that a request is about."""
    return re.search(r"What of ([\w-]+)\?", request.raw.decode())[1]


def turn_of(request):
    """Return the number of a request in its run, from 1."""
    return 1 + sum(message["role"] == "assistant" for message in request.messages)


def paid(served):
    """Return how often each turn of each item was requested and answered."""
    return Counter((item_of(request), turn_of(request)) for request in served.requests if request.status == 200)


def names(count):
    """Return the items."""
    return [f"item-{number}" for number in range(1, count + 1)]


def at_time_of(batch, clock):
    """Let the pauses of a batch follow the clock of a test."""
    batch._clock, batch._sleep = clock, clock.sleep
    return batch


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Create the project; return the path of its store."""
    write_specialist(owl_project(tmp_path, monkeypatch), "looker", "tools: [search]")
    return tmp_path / "batch.db"


@pytest.fixture
def start(messages_api, monkeypatch, store):
    """Return a function that starts an API, and gives it to all runners."""

    def start_api(policy=looks_then_answers, **options):
        served = messages_api(policy, **options)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", served.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
        return served

    return start_api


async def mapped(store, count, stop=None, clock=None, **options):
    """Map over some items in a runner of its own; return the batch and the ends by number."""
    async with Runner(model="haiku", store=store) as runner:
        batch = runner.map("looker", names(count), QUESTION, **options)
        if clock is not None:
            at_time_of(batch, clock)
        if stop is not None:
            batch.listen_runs(lambda number, event: stop(batch, event))
        done = {one.number: one async for one in batch}
    return batch, done


@pytest.mark.exhaustive
async def test_the_same_call_again_pays_for_nothing(start, store):
    """All outcomes come from the store, equal to those of the first call, and no request is sent."""
    served = start()
    first, before = await mapped(store, 6, at_once=3)
    assert first.counts.answered == 6
    assert len(served.requests) == 18
    again, after = await mapped(store, 6, at_once=3)
    assert again.id == first.id
    assert (again.counts.answered, again.counts.earlier, len(served.requests)) == (6, 6, 18)
    assert {n: one.outcome for n, one in after.items()} == {n: one.outcome for n, one in before.items()}
    more, _ = await mapped(store, 8, at_once=3)
    assert (more.counts.answered, more.counts.earlier, len(served.requests)) == (8, 6, 24)


@pytest.mark.exhaustive
async def test_leaving_the_loop_stores_the_ends_and_the_same_call_goes_on(start, store):
    """`break` aborts the runs under way; the next call resumes them, and pays for no stored reply again."""
    served = start()
    async with Runner(model="haiku", store=store) as runner:
        async for _ in runner.map("looker", names(8), QUESTION, at_once=3):
            break
    stored = paid(served)
    assert len(stored) < 24
    batch, _ = await mapped(store, 8)
    assert batch.counts.answered == 8
    twice = {turn for turn, times in paid(served).items() if times > 1}
    assert len(twice) <= 3, "only requests under way when the loop was left"
    assert all(times <= 2 for times in paid(served).values())


AWAY = {"rate_limited": (faults.rate_limited, 60), "quota": (lambda: faults.invalid(OUT_OF_CREDIT), 1800)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", AWAY)
async def test_an_endpoint_that_is_away_costs_no_item_and_no_reply(start, store, kind):
    """429 for a minute, a quota gone for half an hour: the batch pauses and is done, and pays for nothing twice."""
    fault, seconds = AWAY[kind]
    clock, answered = Clock(), []

    def policy(request):
        if len(answered) >= 7 and clock.now < seconds:
            return fault()
        answered.append(item_of(request))
        return looks_then_answers(request)

    served = start(policy)
    events = []
    batch, done = await mapped(store, 10, lambda batch, event: events.append(event.event), clock, at_once=3, patience=0)
    assert (batch.counts.answered, batch.counts.failed, batch.counts.not_run) == (10, {}, 0)
    assert {one.outcome.answer for one in done.values()} == {f"Owls eat mice, says {name}." for name in names(10)}
    assert set(paid(served).values()) == {1}
    assert clock.now >= seconds
    refused = sum(request.status != 200 for request in served.requests)
    assert refused <= 3 + 3 + len(clock.slept), "in the pause one item at a time probes the endpoint"


@pytest.mark.exhaustive
async def test_a_cost_limit_holds_over_several_calls_and_is_not_in_the_prompt(start, store):
    """The items not begun are not run; the next call with a higher limit works on them; all prompts are the same."""
    served = start()
    whole, _ = await mapped("none", 1)
    price = whole.cost_usd
    assert price > 0
    limited, done = await mapped(store, 12, at_once=2, cost_limit=price * 5)
    assert limited.ended_because == "cost_limit"
    assert (limited.counts.done + limited.counts.not_run, limited.counts.has_answer) == (12, len(done))
    assert 2 <= len(done) <= 6
    assert limited.cost_usd <= price * 5 + price / 3, "exceeded by at most a request in progress"
    sent = len(served.requests)
    same, _ = await mapped(store, 12, at_once=2, cost_limit=price * 5)
    assert (same.counts.earlier, len(served.requests)) == (len(done), sent), "the limit covers the earlier call"
    more, _ = await mapped(store, 12, at_once=2, cost_limit=price * 40)
    assert (more.counts.has_answer, more.ended_because) == (12, None)
    assert more.cost_usd <= price * 14
    systems = {repr(request.body["system"]) for request in served.requests}
    assert len(systems) == 1


async def test_a_grant_counts_down_and_lands_like_any_cost_limit(start, store):
    """An item whose grant is too small for its calls lands, and names the limit."""
    start()
    whole, _ = await mapped("none", 1)
    _, done = await mapped(store, 1, cost_limit=whole.cost_usd * 0.9)
    assert done[1].state == "landed"
    assert done[1].outcome.landing.reason == "cost"
    assert done[1].outcome.limits["cost"].limit == pytest.approx(whole.cost_usd * 0.9)


@pytest.mark.exhaustive
async def test_two_runners_share_a_batch(start, store):
    """Two processes that map the same items divide them; each item is paid for once, and both get all outcomes."""
    served = start()
    (one, _), (other, _) = await asyncio.gather(mapped(store, 12, at_once=2), mapped(store, 12, at_once=2))
    assert set(paid(served).values()) == {1}
    assert len(served.requests) == 36
    for batch in (one, other):
        assert batch.counts.answered + batch.counts.at_work_elsewhere == 12
