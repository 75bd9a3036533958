"""One thread writes all runs of a process, in order and complete, and notifies those who wait."""

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given, settings

from run_specialist.record.events import Finished
from run_specialist.record.journal import Ended, EventLogged, FileChanging
from run_specialist.record.messages import Message
from run_specialist.store.base import StoreFailure
from run_specialist.store.ledger import Ledger
from tests.plugins.tiers import examples
from tests.unit.store.message_blocks import BLOCKS
from tests.unit.store.records import (
    TABLES,
    answered,
    ask,
    begun,
    checkpointed,
    counts,
    ended,
    opened,
    received,
    returned,
    turn_of,
    unpacked,
    write,
)

pytestmark = pytest.mark.anyio


async def test_s4_4_every_record_of_a_run_is_stored(writer, store_url):
    """Two turns are stored completely: a row for the run, each reply, message, call with its output, and event."""
    journal = writer.journal("run-1")
    assert await write(journal, *begun("run-1"), *turn_of(1), *turn_of(2, "a longer note"), *ended("run-1")) is None
    assert counts(store_url) == {"runs": 1, "turns": 2, "messages": 5, "calls": 2, "events": 5}
    said = [json.loads(unpacked(body)) for (body,) in ask(store_url, "select body from messages order by place")]
    assert [one["role"] for one in said] == ["user", "assistant", "user", "assistant", "user"]
    assert said[4]["blocks"] == [*answered(2).blocks]
    assert (
        json.loads(unpacked(ask(store_url, "select body from calls where number = 2")[0][0]))["whole"]
        == "a longer note"
    )
    (run,) = ask(store_url, "select status, tool_calls, cost_usd, outcome from runs")
    assert run[:3] == ("answered", 2, 0.5)
    assert json.loads(unpacked(run[3]) or "")["answer"] == "It is known."


async def test_replacing_a_tail_removes_later_messages(writer, store_url):
    """Replacing a tail removes all later messages of its part, even if the new tail is shorter."""
    journal = writer.journal("run-1")
    three = [Message.user(text) for text in "abc"]
    await write(journal, opened("run-1"), checkpointed(0, 0, three), checkpointed(0, 0, three, part=1, copies=2))
    await write(journal, checkpointed(1, 1, [Message.user("d").with_instruction("Now.")], part=1, copies=2))
    kept = ask(store_url, "select part, place, body, copied from messages order by part, place")
    words = [
        (part, place, json.loads(unpacked(body))["landing_instruction"], bool(copied))
        for part, place, body, copied in kept
    ]
    assert words == [
        (0, 0, None, False),
        (0, 1, None, False),
        (0, 2, None, False),
        (1, 0, None, True),
        (1, 1, "Now.", True),
    ]


async def test_rows_sent_again_are_stored_once(writer, store_url, monkeypatch):
    """Rows sent again are stored once: a connection that breaks at the commit may already have committed."""
    broken = breaking(monkeypatch, after=True)
    journal = writer.journal("run-1")
    assert await write(journal, *begun("run-1"), *turn_of(1), *ended("run-1")) is None
    assert broken == ["broken"]
    assert counts(store_url) == {"runs": 1, "turns": 1, "messages": 3, "calls": 1, "events": 3}


def breaking(monkeypatch, *, after: bool, times: int = 1) -> list[str]:
    """Break the connection before or after some commits; return a list that gets an entry for each of them."""
    broken: list[str] = []
    whole = Ledger._write

    def half(self, batch):
        done = whole(self, batch) if after else set()
        if len(broken) < times:
            broken.append("broken")
            raise StoreFailure("the connection broke")
        return whole(self, batch) if not after else done

    monkeypatch.setattr(Ledger, "_write", half)
    return broken


@pytest.mark.exhaustive
async def test_a_thousand_runs_share_the_thread(writer, store_url):
    """A thousand runs share the thread: every row is stored and each run has its own event numbers."""

    async def child(run_id: str) -> None:
        journal = writer.journal(run_id)
        assert await write(journal, *begun(run_id)) is None
        for turn in (1, 2):
            assert await write(journal, *turn_of(turn)) is None
        assert await write(journal, *ended(run_id)) is None

    await asyncio.gather(*(child(f"run-{number}") for number in range(1_000)))
    assert counts(store_url) == {
        "runs": 1_000,
        "turns": 2_000,
        "messages": 5_000,
        "calls": 2_000,
        "events": 5_000,
    }
    assert ask(store_url, "select max(number), count(distinct run_id) from events") == [(5, 1_000)]


def test_loops_in_several_threads_share_the_thread(writer, store_url):
    """Each event loop is woken separately, even if another one was closed meanwhile."""

    async def child(run_id: str) -> str | None:
        return await write(writer.journal(run_id), *begun(run_id), *turn_of(1), *ended(run_id))

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda number: asyncio.run(child(f"run-{number}")), range(12)))
    assert told == [None] * 12
    assert counts(store_url)["turns"] == 12


CHILDREN = """
import asyncio, os, sys
import psycopg, sqlalchemy.dialects.postgresql.psycopg, run_specialist.store.ledger
from run_specialist.store.location import Location
from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, ended, turn_of

async def child(writer, run_id):
    journal = writer.journal(run_id)
    for record in (*begun(run_id), *turn_of(1), *turn_of(2), *ended(run_id)):
        journal.write(record)
        if why := await journal.committed():
            sys.exit(why)

async def main(process):
    writer = Writer(Location(sys.argv[1], named=True))
    await asyncio.gather(*(child(writer, f"run-{process}-{number}") for number in range(5)))
    writer.close()

# Forked before there are threads: what takes long is to import a database library eight times.
process = next((process for process in range(8) if os.fork() == 0), None)
if process is not None:
    asyncio.run(main(process))
else:
    sys.exit(any([os.wait()[1] for _ in range(8)]))
"""


@pytest.mark.exhaustive
def test_eight_processes_share_a_store(store_url):
    """Eight processes create and write one store at the same time, and every row is stored."""
    done = subprocess.run([sys.executable, "-c", CHILDREN, store_url], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert counts(store_url) == {
        "runs": 40,
        "turns": 80,
        "messages": 200,
        "calls": 80,
        "events": 200,
    }


def test_blocks_read_from_the_database_give_the_same_bytes(writer, store_url):
    """Blocks of models and tools read from the database give the same request bytes."""
    messages: list[Message] = []

    @given(blocks=BLOCKS)
    @settings(max_examples=examples(100))
    def collect(blocks):
        messages.append(Message("assistant", tuple(blocks)))

    collect()
    assert asyncio.run(write(writer.journal("run-1"), opened("run-1"), checkpointed(0, 0, messages))) is None
    kept = [json.loads(unpacked(body)) for (body,) in ask(store_url, "select body from messages order by place")]
    again = [Message("assistant", tuple(one["blocks"])) for one in kept]
    assert [message.encoded for message in again] == [message.encoded for message in messages]


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "\U0010ffff", "é" * 3_000], ids=["nul", "half", "last", "long"])
async def test_nul_and_lone_surrogates_do_not_prevent_storage(writer, store_url, odd):
    """NULs and lone surrogates in texts of models, tools or files do not prevent storage."""
    journal = writer.journal(f"run-{odd}")
    records = [
        opened(f"run-{odd}", specialist=odd, model=odd, question=odd, frozen={odd: odd}),
        received(1, {"type": "text", "text": odd}),
        returned(1, odd, note=odd),
        FileChanging(odd, odd, None, "abc", odd, odd),
        EventLogged(event=Finished(replace(ended(odd)[0].outcome, answer=odd, output={odd: odd}))),
        checkpointed(1, 0, [Message.user(odd).with_instruction(odd)]),
        Ended(outcome=replace(ended(odd)[0].outcome, status=odd)),
    ]
    assert await write(journal, *records) is None
    assert counts(store_url) == dict.fromkeys(TABLES, 1)
    assert json.loads(unpacked(ask(store_url, "select body from calls")[0][0]))["whole"] == odd
    change = json.loads(unpacked(ask(store_url, "select body from changes")[0][0]))
    assert (change["path"], change["content"]) == (odd, odd)


async def test_a_row_that_cannot_be_written_fails_only_its_own_run(writer, store_url):
    """A number out of range fails one run; the other runs of the same transaction are stored."""
    journals = {run_id: writer.journal(run_id) for run_id in ("run-1", "run-2", "run-3")}
    await asyncio.gather(*(write(journal, *begun(run_id)) for run_id, journal in journals.items()))
    batches = {run_id: turn_of(1) for run_id in journals}
    batches["run-2"].insert(0, received(2**70))
    told: dict[str, str | None] = {}

    async def one(run_id: str) -> None:
        told[run_id] = await write(journals[run_id], *batches[run_id])

    await asyncio.gather(*map(one, journals))
    assert (told["run-1"], told["run-3"]) == (None, None)
    assert (told["run-2"] or "").startswith("this run is not stored from turn 1 on: ")
    assert "\n" not in (told["run-2"] or "")
    assert [counts(store_url, run_id)["turns"] for run_id in journals] == [1, 0, 1]
    assert await write(journals["run-2"], *turn_of(2)) is None
    assert counts(store_url, "run-2")["turns"] == 0
