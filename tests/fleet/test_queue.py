"""The queue on a real PostgreSQL server: jobs are fenced, silent workers lose them, gates close and open."""

import asyncio

import pytest

from run_specialist.fleet import queue as queue_module
from run_specialist.fleet.batches import Control
from run_specialist.fleet.queue import Queue
from tests.fleet.conftest import BATCH, run_id
from tests.unit.store.records import ask, change

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]
ALL = {BATCH: 0}
TURN = f"insert into run_specialist.turns (run_id, number, body) values ('{run_id(1)}', 0, '')"  # noqa: S608 - constant
"""Stores a turn of the run of the first item."""


@pytest.fixture
def impatient(monkeypatch):
    """Make every job that was taken look as if its worker were silent."""
    monkeypatch.setattr(queue_module, "SILENCE", 0.0)


async def test_processes_may_set_the_queue_up_at_the_same_time(server):
    """One creates the tables, the others wait; setting it up again has no effect."""
    change(server.url, "drop schema if exists run_specialist_queue cascade")

    async def set_up():
        async with Control(server.url) as control:
            await control.set_up()

    await asyncio.gather(*(set_up() for _ in range(4)))
    assert ask(server.url, "select count(*) from run_specialist_queue.pgqueuer") == [(0,)]


async def test_the_fleet_holds_no_more_jobs_than_the_batch_allows(put, queue, url):
    """The limit counts the jobs of all workers together."""
    await put(9)
    other = Queue(url)
    taken = [await one.take({BATCH: 3}, 2) for one in (queue, other, queue, other)]
    assert sum(map(len, taken)) == 3
    await other.close()


async def test_a_worker_that_lost_its_job_cannot_change_it(put, queue, url, impatient):
    """A frozen worker that wakes up neither deletes nor hands back the job of the one that took it over."""
    await put(1)
    (lost,) = await queue.take(ALL, 1)
    await queue.begin(lost)
    other = Queue(url)
    (job,) = await other.take(ALL, 1)
    assert job.job_id == lost.job_id
    held = [len(await one.fetch(queue_module.BEAT, [job.job_id], one.worker)) for one in (queue, other)]
    assert held == [0, 1]
    assert not await queue.finish(lost, "ended")
    assert not await queue.hand_back(lost, 0.0)
    assert ask(url, "select state from run_specialist.items") == [("begun",)]
    assert await other.finish(job, "ended", "a reason")
    assert ask(url, "select state from run_specialist.items") == [("ended",)]
    await other.close()


async def test_takeovers_are_counted_since_the_newest_turn(put, queue, impatient, url):
    """An item that its worker handed back was not taken over; a new turn begins the count again."""
    await put(1)
    (job,) = await queue.take(ALL, 1)
    seen = [await queue.begin(job) for _ in range(3)]
    assert [(one.taken_over, one.takeovers) for one in seen] == [(False, 0), (True, 1), (True, 2)]
    await queue.uncount(job)
    await queue.hand_back(job, 0.0)
    (job,) = await queue.take(ALL, 1)
    handed_back = await queue.begin(job)
    assert (handed_back.taken_over, handed_back.takeovers) == (False, 1)
    change(url, TURN)
    assert (await queue.begin(job)).takeovers == 1


async def test_a_closed_gate_holds_the_batch_up_for_all_workers(put, queue, url):
    """After the pause one worker tries one item; failures during the pause do not make it longer."""
    await put(2)
    await queue.close_gate(BATCH, 100.0, "429")
    await queue.close_gate(BATCH, None, "429 again")
    waiting = (await queue.waiting())[BATCH]
    state, closed = waiting.state, waiting.closed
    assert (state, 90 < closed <= 100) == ("open", True)
    assert not await queue.may_probe(BATCH)
    await queue.open_gate(BATCH)
    assert (await queue.waiting())[BATCH].closed is not None
    change(url, "update run_specialist.gates set until = 0")
    assert [await queue.may_probe(BATCH) for _ in range(2)] == [True, False]
    assert (await queue.waiting())[BATCH].closed > 0
    await queue.close_gate(BATCH, None, "429 again")
    assert ask(url, "select failures, reason from run_specialist.gates") == [(2, "429 again")]
    assert 50 < (await queue.waiting())[BATCH].closed <= 60
    change(url, "update run_specialist.gates set until = 0")
    await queue.open_gate(BATCH)
    assert (await queue.waiting())[BATCH].closed is None


async def test_a_cancelled_batch_leaves_only_the_jobs_at_work(put, queue, url):
    """Items that have not begun are cancelled; the others are left to their workers."""
    await put(3)
    (job,) = await queue.take(ALL, 1)
    await queue.begin(job)
    async with Control(url) as control:
        assert await control.cancel(BATCH) == 2
        (status,) = await control.status(BATCH)
    assert (status.state, status.items, status.at_work) == ("cancelled", {"begun": 1, "cancelled": 2}, 1)


async def test_items_that_were_given_up_can_be_tried_again(put, queue, url):
    """They wait as if they had never begun."""
    await put(2)
    jobs = await queue.take(ALL, 2)
    for job, state in zip(jobs, ["dead", "ended"], strict=True):
        await queue.begin(job)
        await queue.finish(job, state, "why")
    async with Control(url) as control:
        assert await control.status() == []
        assert await control.retry(BATCH, ["failed"]) == 2
        (status,) = await control.status()
    assert (status.items, status.queued) == ({"waiting": 2}, 2)
