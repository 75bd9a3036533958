"""P.8: a batch, a row or an item of the queue that is damaged is refused alone; the worker goes on with the others."""

import json
import os
import zlib

import psycopg
import pytest

from run_specialist.fleet.batches import Control
from tests.fleet.conftest import BATCH, put_batch, run_id, until
from tests.unit.store.records import ask

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]

BYTES = {
    "empty": b"",
    "no zlib": b"\x01not compressed",
    "cut zlib": b"\x01" + zlib.compress(b"x" * 5_000)[:-8],
    "huge zlib": b"\x01" + zlib.compress(b" " * 70 * 1024**2),
    "no UTF-8": b"\0\xff\xfe",
    "no JSON": b"\0{",
    "NUL": b"\0\0",
    "a list": b"\0[1, 2]",
    "a text": b'\0"text"',
    "null": b"\0null",
    "deep": b"\0" + b"[" * 200_000,
}
"""Bytes of a row that no version of this program writes."""
VALUES = {
    "no content": {"content": None},
    "root is a list": {"root": ["notes"]},
    "root ids are numbers": {"root_ids": [1]},
    "settings are a list": {"settings": [["model", "offline"]]},
    "unknown setting": {"settings": {"no_such_key": 1}},
    "setting of the call": {"settings": {"retry": ["failed"]}},
    "wrong setting": {"settings": {"tool_calls_limit": "many"}},
    "model is a list": {"model": ["sonnet"]},
    "misspelt model": {"model": "sonett"},
    "require_model is a text": {"require_model": "no"},
    "at_once is negative": {"at_once": -1},
    "at_once is huge": {"at_once": 2**80},
    "at_once is a text": {"at_once": "4"},
    "typical_cost is NaN": {"typical_cost": float("nan")},
    "priority is a list": {"priority": [1]},
    "content is a list": {"content": ["x"]},
    "content is no specialist": {
        "content": "\0",
        "digest": "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    },
    "other digest": {"digest": "0" * 64},
    "place is a list": {"place": ["specialists"]},
    "place with NUL": {"place": "a\0b.md"},
    "long place": {"place": "x" * 5_000},
}
"""Values of a frozen batch of other types, or out of range."""
ENDED = f"select 1 from run_specialist.items where batch_id = '{BATCH}' and state = 'ended'"  # noqa: S608 - a constant
PLACES = {"a FIFO": "pipe", "a device": "/dev/zero", "a folder": "specialists"}
"""Places at which no file with the content is: the batch has its own copy."""


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


@pytest.mark.parametrize("place", PLACES)
async def test_a_batch_never_reads_what_is_no_file(url, root, frozen, working, model, place):
    """A FIFO or a device at the place of the specialist does not hold up the worker."""
    assert model.requests == []
    os.mkfifo(root / "pipe")
    await put_batch(url, "bad000", frozen | {"place": PLACES[place]})
    await put_batch(url, BATCH, frozen)
    async with working():
        await until(lambda: ask(url, ENDED))


async def test_p8_a_bad_job_is_removed_alone(url, frozen, working, model):
    """Jobs that name no item of their batch are refused, each in one line; the other items are answered."""
    await put_batch(url, BATCH, frozen, 6)
    payloads = [b"{", b"[]", b'"text"', json.dumps({"run_id": f"another-{run_id(5)}", "retry": []}).encode()]
    for number, payload in enumerate(payloads, 1):
        change = "update run_specialist_queue.pgqueuer set payload = %s where dedupe_key = %s"
        execute(url, change, payload, run_id(number))
    async with working() as (worker, _):
        await until(lambda: ask(url, "select count(*) from run_specialist_queue.pgqueuer") == [(0,)])
    assert [line.split(" ")[0] for line in worker.said] == ["failed:"] * 4
    states = dict(ask(url, "select state, count(*) from run_specialist.items group by state"))
    assert states == {"ended": 2, "waiting": 4}
    assert {request.item for request in model.requests} == {5, 6}


async def test_p8_a_bad_item_fails_alone(url, frozen, working, model):
    """A question that cannot be read ends its item with the reason; the others are answered."""
    await put_batch(url, BATCH, frozen, 3)
    for number, question in enumerate((b"\x01no zlib", b""), 1):
        execute(url, "update run_specialist.items set question = %s where run_id = %s", question, run_id(number))
    async with working() as (worker, _):
        await until(lambda: ask(url, "select count(*) from run_specialist.items where state = 'ended'") == [(3,)])
    assert sorted(line.partition(": ")[0] for line in worker.said) == [f"{run_id(n)} failed" for n in (1, 2)]
    assert all("the question of the item cannot be read" in line for line in worker.said)
    assert {request.item for request in model.requests} == {3}


async def test_a_damaged_reason_does_not_hide_the_other_batches(url, frozen):
    """`fleet status` shows every batch, also one whose reason is no text."""
    await put_batch(url, BATCH, frozen)
    await put_batch(url, "bad000", frozen)
    execute(url, "update run_specialist.batches set reason = %s where batch_id = 'bad000'", b"\x01no zlib")
    async with Control(url) as control:
        found = {one.batch_id: one.reason for one in await control.status()}
    assert found == {BATCH: None, "bad000": "its reason cannot be read"}
