"""The queue on a real PostgreSQL server: jobs are fenced, silent workers lose them, gates close and open."""

import asyncio
import json
import os
import re
import zlib
from pathlib import Path

import psycopg
import pytest

from run_specialist.batch.item import LimitReached, NotAffordable
from run_specialist.errors import StoreUnusable
from run_specialist.fleet import queue as queue_module
from run_specialist.fleet import worker as worker_module
from run_specialist.fleet.batches import Control, Root
from run_specialist.fleet.queue import Queue
from run_specialist.fleet.worker import Worker
from run_specialist.record.outcome import Exit
from run_specialist.store.location import VERSION
from tests.fleet.conftest import BATCH, put_batch, run_id, until
from tests.unit.store.records import ask, change

pytestmark = pytest.mark.exhaustive

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


PRICE = (100 * 3 + 10 * 15) / 1e6
"""Cost of a request to the scripted model [USD]."""


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


# P.8: a batch, a row or an item of the queue that is damaged is refused alone; the worker goes on with the others.
BYTES = {
    "cut zlib": b"\x01" + zlib.compress(b"x" * 5_000)[:-8],
    "huge zlib": b"\x01" + zlib.compress(b" " * 70 * 1024**2, 1),
    "no UTF-8": b"\0\xff\xfe",
    "no JSON": b"\0{",
    "a list": b"\0[1, 2]",
    "deep": b"\0" + b"[" * 200_000,
}
"""Bytes of a row that no version of this program writes."""
VALUES = {
    "no content": {"content": None},
    "root is a list": {"root": ["notes"]},
    "unknown setting": {"settings": {"no_such_key": 1}},
    "wrong setting": {"settings": {"tool_calls_limit": "many"}},
    "misspelt model": {"model": "sonett"},
    "at_once is huge": {"at_once": 2**80},
    "typical_cost is NaN": {"typical_cost": float("nan")},
    "content is no specialist": {
        "content": "\0",
        "digest": "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    },
    "other digest": {"digest": "0" * 64},
    "place with NUL": {"place": "a\0b.md"},
    "long place": {"place": "x" * 5_000},
}
"""Values of a frozen batch of other types, or out of range."""
ENDED = f"select 1 from run_specialist.items where batch_id = '{BATCH}' and state = 'ended'"  # noqa: S608 - a constant


def execute(url, statement, *values):
    """Execute a statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement, values)


async def test_p8_a_bad_batch_is_refused_alone(url, root, frozen, working, model):
    """Each damaged row is named in one line, and its items stay in the queue; the batch behind them is answered."""
    named = {f"bad{n:03}": name for n, name in enumerate([*BYTES, *VALUES])}
    for batch_id, name in named.items():
        await put_batch(url, batch_id, json.loads(json.dumps(frozen | VALUES.get(name, {}))))
        if name in BYTES:
            execute(url, "update run_specialist.batches set frozen = %s where batch_id = %s", BYTES[name], batch_id)
    await put_batch(url, BATCH, frozen, 2)
    async with working() as (worker, task):
        await until(lambda: ask(url, ENDED))
        assert not task.done()
    lines = {batch_id: [line for line in worker.said if batch_id in line] for batch_id in named}
    assert {named[one]: found for one, found in lines.items() if len(found) != 1 or "\n" in found[0]} == {}
    assert all(line.startswith("refused: batch bad") for line in worker.said), worker.said
    states = dict(ask(url, "select state, count(*) from run_specialist.items where batch_id like 'bad%' group by 1"))
    assert states == {"waiting": len(named)}
    assert {request.item for request in model.requests} <= {1, 2}
    execute(url, "update run_specialist.batches set reason = %s where batch_id = 'bad000'", b"\x01no zlib")
    async with Control(url) as control:
        reasons = {one.batch_id: one.reason for one in await control.status()}
    assert {reasons.pop("bad000"), *reasons.values()} == {"its reason cannot be read", None}


async def test_a_batch_never_reads_what_is_no_file(url, root, frozen, working, model):
    """A FIFO, a device or a folder at the place of the specialist does not hold up the worker."""
    os.mkfifo(root / "pipe")
    for number, place in enumerate(("pipe", "/dev/zero", "specialists")):
        await put_batch(url, f"bad00{number}", frozen | {"place": place})
    await put_batch(url, BATCH, frozen)
    async with working():
        await until(lambda: ask(url, ENDED))


async def test_p8_a_bad_job_or_item_fails_alone(url, frozen, working, model):
    """A job that names no item of its batch, and a question that cannot be read, are a line; others are answered."""
    await put_batch(url, BATCH, frozen, 8)
    payloads = [b"{", b"[]", b'"text"', json.dumps({"run_id": f"another-{run_id(5)}", "retry": []}).encode()]
    for number, payload in enumerate(payloads, 1):
        change = "update run_specialist_queue.pgqueuer set payload = %s where dedupe_key = %s"
        execute(url, change, payload, run_id(number))
    for number, question in enumerate((b"\x01no zlib", b""), 5):
        execute(url, "update run_specialist.items set question = %s where run_id = %s", question, run_id(number))
    async with working() as (worker, _):
        await until(lambda: ask(url, "select count(*) from run_specialist_queue.pgqueuer") == [(0,)])
    told = sorted(line.partition(": ")[0] for line in worker.said)
    assert told == [*(f"{run_id(n)} failed" for n in (5, 6)), *["failed"] * 4]
    assert sum("the question of the item cannot be read" in line for line in worker.said) == 2
    states = dict(ask(url, "select state, count(*) from run_specialist.items group by state"))
    assert states == {"ended": 4, "waiting": 4}
    assert {request.item for request in model.requests} == {7, 8}


# P.8: a worker without privileges, or whose version of the tables does not fit, takes nothing, says why and ends.
ROLE = "fleet_worker"
DOCS = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()


@pytest.fixture
def role(url):
    """The URL of a role without privileges in the same database."""
    change(url, f"create role {ROLE} login password 'secret'")
    yield re.sub(r"//[^@]*@", f"//{ROLE}:secret@", url)
    change(url, f"drop owned by {ROLE}")
    change(url, f"drop role {ROLE}")


def work_as(url, root, said):
    """Return a worker that connects as another role."""
    return Worker(url, {"notes": Root(root)}, lambda text, **_: said.append(text), at_once=4)


async def test_a_worker_without_privileges_names_the_grants_and_they_suffice(put, role, root, model, url):
    """One line has all statements, as docs/fleet.md; then the worker answers and changes no batch; revoked, it ends."""
    await put(3)
    with pytest.raises(StoreUnusable) as refused:
        await work_as(role, root, []).work()
    line = str(refused.value)
    assert ("\n" in line, "lacks privileges" in line, "secret" in line) == (False, True, False)
    (block,) = re.findall(r"```sql\ncreate role .*?;(.*?)```", DOCS, re.DOTALL | re.IGNORECASE)
    for source in (block, line):
        change(url, f"drop owned by {ROLE}")
        for statement in re.findall(r"(?i)\bgrant [^;]*;", source):
            change(url, statement)
        theirs = Queue(role)
        await theirs.check_access()
        await theirs.close()
        for statement in (
            "update run_specialist.batches set frozen = ''",
            "update run_specialist.batches set cost_limit = null",
            "delete from run_specialist.runs",
            "insert into run_specialist_queue.pgqueuer default values",
            "create table run_specialist.more ()",
        ):
            with psycopg.connect(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    said = []
    task = asyncio.create_task(work_as(role, root, said).work())
    await until(lambda: ask(url, "select count(*) from run_specialist.items where state = 'ended'") == [(3,)])
    assert model.paid_again().total() == 0
    change(url, f"revoke select on run_specialist.gates from {ROLE}")  # noqa: S608
    assert await task == Exit.USAGE
    assert "permission denied for table gates" in said[-1]


async def test_a_worker_ends_when_the_tables_are_of_another_version(put, working, root, model, url):
    """Runs under way end after their turn and go back, nothing more is taken, and the exit code is 2; none begins."""
    await put(6)
    for version, advice in (("0999", "update run-specialist"), ("0000", "fleet setup")):
        change(url, f"update run_specialist.alembic_version set version_num = '{version}'")  # noqa: S608 - a constant
        with pytest.raises(StoreUnusable, match=advice):
            await work_as(url, root, []).work()
    assert (ask(url, "select distinct state from run_specialist.items"), model.requests) == ([("waiting",)], [])
    change(url, f"update run_specialist.alembic_version set version_num = '{VERSION:04}'")  # noqa: S608
    model.delay = 0.4
    async with working() as (worker, task):
        await until(lambda: len(model.requests) >= 4)
        change(url, "update run_specialist.alembic_version set version_num = '0999'")
        assert await task == Exit.USAGE
    assert worker.said[0].startswith("this worker stops: ")
    assert "its tables are of version 999" in worker.said[0]
    assert {request.item for request in model.requests} <= {1, 2, 3, 4}
    assert ask(url, "select count(*) from run_specialist_queue.pgqueuer where status = 'picked'") == [(0,)]
    change(url, f"update run_specialist.alembic_version set version_num = '{VERSION:04}'")  # noqa: S608
    model.delay = 0.0
    async with working():
        await until(lambda: ask(url, f"select 1 from run_specialist_queue.pgqueuer where entrypoint = '{BATCH}'") == [])  # noqa: S608
    assert model.paid_again().total() == 0
