"""The cost limit of a batch holds over a whole fleet, on a real PostgreSQL server."""

import asyncio

import pytest

from run_specialist.batch.item import LimitReached, NotAffordable
from run_specialist.fleet import queue as queue_module
from run_specialist.fleet import worker as worker_module
from run_specialist.fleet.batches import Control
from run_specialist.fleet.queue import Queue
from tests.fleet.conftest import BATCH, run_id, until
from tests.unit.store.records import ask, change

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]
PRICE = (100 * 3 + 10 * 15) / 1e6
"""Cost of a request to the scripted model [USD]."""
ALL = {BATCH: 0}


def limit(url, usd):
    """Set the limit of the batch."""
    change(url, f"update run_specialist.batches set cost_limit = {usd}")  # noqa: S608 - a number


async def share(queue, job, **changed):
    """Return the share of an item, for a worker with two slots."""
    settings = {"worker_slots": 2, "batch_slots": 2, "typical": 0.0} | changed
    return await queue.share(job, settings.pop("own", None), **settings)


async def begun(queue, count):
    """Take jobs and begin their items."""
    jobs = await queue.take(ALL, count)
    for job in jobs:
        await queue.begin(job)
    return jobs


async def test_shares_are_reserved_in_the_store(put, queue, url):
    """Two slots get half each, a third item gets nothing until one has ended, and none is granted more than is left."""
    await put(4)
    limit(url, 1.0)
    one, two, three = await begun(queue, 3)
    assert [await share(queue, one), await share(queue, two)] == [0.5, 0.5]
    async with Control(url) as control:
        (status,) = await control.status()
    assert (status.cost_limit, status.cost_usd, status.granted_usd) == (1.0, 0.0, 1.0)
    with pytest.raises(NotAffordable) as refused:
        await share(queue, three)
    assert not isinstance(refused.value, LimitReached)
    await queue.finish(one, "ended")
    assert await share(queue, three) == 0.5
    assert await share(queue, two, own=0.125) == 0.125


async def test_the_item_of_a_dead_worker_gives_its_share_back(put, queue, url, monkeypatch):
    """Whoever takes the item over gets a new share instead of the old one; the worker that lost it gets none."""
    monkeypatch.setattr(queue_module, "SILENCE", 0.0)
    await put(1)
    limit(url, 1.0)
    (lost,) = await begun(queue, 1)
    assert await share(queue, lost) == 1.0
    other = Queue(url)
    (job,) = await begun(other, 1)
    assert await share(other, job, own=0.25) == 0.25
    with pytest.raises(NotAffordable):
        await share(queue, lost)
    assert ask(url, "select granted from run_specialist.items") == [(0.25,)]
    await other.close()


async def test_what_an_item_has_spent_counts_with_what_it_may_spend(put, queue, url):
    """A resumed run gets a share of the rest; if its cost becomes unknown, the whole grant counts as spent."""
    await put(2)
    limit(url, 1.0)
    one, two = await begun(queue, 2)
    columns = "run_id, specialist, model, question, status, started_at, owner, tool_calls, cost_usd, frozen"
    change(
        url,
        f"insert into run_specialist.runs ({columns}) values "  # noqa: S608 - constants
        f"('{run_id(1)}', 'finder', 'm', '', 'running', 0, '', 0, 0.1, '')",
    )
    assert await share(queue, one) == pytest.approx(0.45)
    assert ask(url, "select granted from run_specialist.items where number = 1") == [(pytest.approx(0.55),)]
    change(url, "update run_specialist.runs set cost_usd = null")
    await queue.finish(one, "ended")
    assert await share(queue, two) == pytest.approx(0.45)


async def test_many_workers_never_grant_more_than_the_limit(put, url):
    """Twelve workers ask at the same time, so that only a lock keeps the sum of their shares within the limit."""
    await put(12)
    limit(url, 1.0)
    queues = [Queue(url) for _ in range(12)]
    jobs = [(await begun(queue, 1))[0] for queue in queues]
    asked = [share(queue, job, batch_slots=1, typical=0.2) for queue, job in zip(queues, jobs, strict=True)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    granted = [one for one in found if isinstance(one, float)]
    assert sum(granted) == pytest.approx(1.0)
    assert all(isinstance(one, NotAffordable) for one in found if not isinstance(one, float))
    for queue in queues:
        await queue.close()


async def test_a_fleet_stops_at_the_limit_and_goes_on_with_a_higher_one(put, working, model, url, monkeypatch):
    """What is left for less than an item is not spent, items not begun stay, and no request is paid twice."""
    monkeypatch.setattr(worker_module, "SHARE_DELAY", 0.1)
    await put(6, at_once=2)
    limit(url, 10 * PRICE)
    async with working(), working():
        await until(lambda: ask(url, "select 1 from run_specialist.batches where state = 'ended'"))
    async with Control(url) as control:
        (status,) = await control.status(BATCH)
    assert status.reason.startswith("the cost limit of $0.0045 leaves too little for another item")
    assert (status.queued, status.at_work, status.granted_usd) == (0, 0, 0)
    assert status.cost_usd == pytest.approx(9 * PRICE)
    assert (status.items.pop("waiting"), sum(status.items.values())) == (3, 3)
    assert {*status.items} <= {"answered", "landed"}
    assert await put(6) == 3
    limit(url, 1.0)
    async with working():
        await until(lambda: ask(url, "select count(*) from run_specialist.items where state = 'ended'") == [(6,)])
    assert (len(model.requests), model.paid_again().total()) == (18, 0)


async def test_a_model_without_a_price_pauses_a_batch_with_a_limit(put, working, model, url):
    """Nothing is sent, and the reason says what to do instead."""
    await put(1, model="claude-unheard-of")
    limit(url, 1.0)
    async with working() as (worker, _):
        (line,) = await until(lambda: worker.said)
    assert "cost_limit: the price of claude-unheard-of is unknown" in line
    assert model.requests == []
    assert ask(url, "select state from run_specialist.items") == [("waiting",)]
