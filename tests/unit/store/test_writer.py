"""One thread writes all runs of a process, in order and complete, and notifies those who wait; full disks."""

import asyncio
import json
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.errors import StoreUnusable
from run_specialist.record.events import Finished
from run_specialist.record.journal import Ended, EventLogged, FileChanging
from run_specialist.record.messages import Message
from run_specialist.store import reader
from run_specialist.store import writer as writers
from run_specialist.store.base import Backoff
from run_specialist.store.location import file_of
from run_specialist.store.owners import is_alive
from run_specialist.store.reader import Store
from run_specialist.store.sqlite import open_engine
from tests.forked_program import run_forked
from tests.loop_jobs import Clock
from tests.plugins.tiers import examples
from tests.unit.store.records import (
    TABLES,
    answered,
    ask,
    begun,
    change,
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

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)
OTHER = st.builds(
    lambda kind, more: {**more, "type": kind},
    st.sampled_from(["thinking", "tool_use", "made_up"]),
    st.dictionaries(ANY_TEXT, JSON, max_size=4),
)
BLOCKS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": ANY_TEXT}) | OTHER, max_size=4)


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


FIRST_CHILDREN = """
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
    command = [sys.executable, "-W", "error", "-c", FIRST_CHILDREN, store_url]
    done = run_forked(command, capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    assert counts(store_url) == {"runs": 40, "turns": 80, "messages": 200, "calls": 80, "events": 200}


@pytest.mark.exhaustive
def test_blocks_read_from_the_database_give_the_same_bytes(writer, store_url):
    """Blocks of models and tools read from the database give the same request bytes."""
    messages: list[Message] = []

    @given(blocks=BLOCKS)
    @settings(max_examples=examples(40))
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


FULL = """
import asyncio, json, os, subprocess, sys
folder, kept = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
from run_specialist.errors import StoreMissing, StoreUnusable
from run_specialist.store.location import Location
from run_specialist.store.reader import Store
from run_specialist.store.sqlite import open_engine
from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, ended, turn_of, write

url = f"sqlite:///{folder}/runs.db"
writer = Writer(Location(url, named=True))
for run_id in ("run-1", "run-2"):
    assert asyncio.run(write(writer.journal(run_id), *begun(run_id), *turn_of(1), *ended(run_id))) is None
writer.close()
with open(f"{folder}/filler", "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
told = {}
with Store(url) as store:
    told["listed"] = [run.run_id for run in store.runs()]
    told["turns"] = len(store.load("run-1").turns)
    try:
        store.delete(["run-1"])
    except StoreUnusable as error:
        told["some"] = str(error)
    told["left"] = len(store.runs())
    told["freed"] = store.delete(["run-1", "run-2"]) > 0
try:
    Store(url)
except StoreMissing:
    told["after"] = "none"
os.unlink(f"{folder}/filler")
writer = Writer(Location(url, named=True))
told["again"] = asyncio.run(write(writer.journal("run-3"), *begun("run-3")))
writer.close()
print(json.dumps(told))
"""


@pytest.mark.exhaustive
def test_a_store_on_a_full_disk_can_be_read_and_emptied(tmp_path):
    """With no byte free, runs can be read and deleted, and then stored again.

    SQLite can then create neither a WAL nor its index.
    """
    alone = [shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--mount"]
    try:
        subprocess.run([*alone, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    command = [*alone, sys.executable, "-c", FULL, str(tmp_path), "runs.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert "the disk is full" in told["some"]
    assert told["some"].endswith(reader.NEEDS_SPACE)
    del told["some"]
    expected = {"listed": ["run-2", "run-1"], "turns": 1, "left": 2, "freed": True, "after": "none", "again": None}
    assert told == expected


@pytest.fixture
async def url_disk(make_writer, tmp_path):
    """Store two finished runs and return the URL."""
    url_disk = f"sqlite:///{tmp_path}/runs.db"
    with closing(make_writer(url_disk)) as writer:
        for run_id in ("run-1", "run-2"):
            assert await write(writer.journal(run_id), *begun(run_id), *turn_of(1), *ended(run_id)) is None
    return url_disk


@pytest.fixture
def full(monkeypatch):
    """Make every regular deletion fail as on a full disk."""

    def fail(url_disk, _ids, _batch_ids=()):
        raise StoreUnusable(f"{url_disk}: database or disk is full")

    monkeypatch.setattr(reader, "delete_runs", fail)


async def test_a_store_that_another_process_uses_is_not_removed(url_disk, full, make_writer, monkeypatch):
    """A store that another process uses is not removed, as that process would write on to an unlinked file."""
    monkeypatch.setattr("run_specialist.store.sqlite.WAIT", 0.01)
    make_writer(url_disk).check()
    with Store(url_disk) as store, pytest.raises(StoreUnusable, match="free disk space"):
        store.delete(["run-1", "run-2"])
    assert counts(url_disk)["runs"] == 2


async def test_a_store_with_a_running_run_is_not_removed(url_disk, full, monkeypatch):
    """A store with a running run is not removed, even if no process has the file open."""
    change(url_disk, "update runs set status = 'running' where run_id = 'run-2'")
    monkeypatch.setattr(reader, "is_alive", lambda _url, _token: True)
    with Store(url_disk) as store, pytest.raises(StoreUnusable, match="free disk space"):
        store.delete(["run-1", "run-2"])
    assert counts(url_disk)["runs"] == 2


def pauses(backoff, clock, patience):
    """Return all pauses, advancing the clock by each of them."""
    made = []
    for pause in backoff.pauses(patience):
        made.append(round(pause, 3))
        clock.now += pause
    return made


def test_pauses_double_up_to_the_maximum_until_the_timeout():
    """The first retry is immediate, pauses double up to the longest, and the last retry is made at the timeout."""
    clock = Clock()
    backoff = Backoff(clock=clock)
    assert pauses(backoff, clock, 60.0)[:7] == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    made = pauses(backoff, clock, 5.0)
    assert made == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 1.9]


async def test_closing_writes_queued_records_and_releases_the_lock(make_writer, store_url):
    """Closing writes all queued records, also of unfinished runs, and releases the lock.

    A second close does nothing.
    """
    writer = make_writer(store_url)
    journal = writer.journal("run-1")
    for record in (*begun("run-1"), *turn_of(1), turn_of(2)[0]):
        journal.write(record)
    writer.close()
    writer.close()
    assert counts(store_url) == {"runs": 1, "turns": 1, "messages": 3, "calls": 1, "events": 3}
    ((status, owner),) = ask(store_url, "select status, owner from runs")
    assert status == "running"
    assert not is_alive(store_url, owner)
    assert await write(journal, *turn_of(2)) == "this run is not stored from turn 2 on: the store was closed"
    assert await write(journal, *turn_of(3)) is None
    assert await write(writer.journal("run-2"), *begun("run-2")) == "this run is not stored: the store was closed"


async def test_closing_gives_up_if_the_disk_hangs(monkeypatch, pause_writes, lasting):
    """If the disk hangs, closing gives up after a timeout and a waiting run can be cancelled."""
    monkeypatch.setattr(writers, "PATIENCE_AT_THE_END", 0.01)
    hangs, goes_on = pause_writes()
    waiting = asyncio.ensure_future(write(lasting.journal("run-1"), *begun("run-1")))
    await asyncio.to_thread(hangs.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    lasting.close()
    assert lasting._thread.is_alive()
    goes_on.set()
    lasting._thread.join()


async def test_a_cancelled_waiting_run_does_not_affect_others(pause_writes, lasting, path):
    """If one of two runs that wait for a transaction is cancelled, the other is not affected."""
    begun_to_write, goes_on = pause_writes()
    one, other = (asyncio.ensure_future(write(lasting.journal(run), *begun(run))) for run in ("run-1", "run-2"))
    await asyncio.to_thread(begun_to_write.wait)
    one.cancel()
    goes_on.set()
    assert await other is None
    assert one.cancelled()
    assert counts(f"sqlite:///{path}", "run-2")["runs"] == 1


def test_a_closed_event_loop_does_not_affect_others(pause_writes, lasting, path):
    """If an event loop closes while it waits for the store, the other loops are not affected."""
    begun_to_write, goes_on = pause_writes()

    async def given_up():
        waiting = asyncio.ensure_future(write(lasting.journal("run-1"), *begun("run-1")))
        await asyncio.to_thread(begun_to_write.wait)
        waiting.cancel()

    asyncio.run(given_up())
    goes_on.set()
    assert asyncio.run(write(lasting.journal("run-2"), *begun("run-2"))) is None
    assert counts(f"sqlite:///{path}")["runs"] == 2


FORGETFUL = """
import asyncio, sys
from run_specialist.store import writer
from run_specialist.store.location import Location
from tests.unit.store.records import begun, ended, stored, turn_of, write
writer.PATIENCE_AT_THE_END = 100
made = writer.Writer(Location(sys.argv[1], named=True))
loaded = {"sqlalchemy", "alembic", "psycopg"}
assert not loaded & {*sys.modules}
assert asyncio.run(write(made.journal("run-1"), *begun("run-1"), *turn_of(1), *ended("run-1"))) is None
journal = made.claim(stored("run-1", turns=1))
for record in turn_of(2):
    journal.write(record)
print(loaded & {*sys.modules})
"""


@pytest.mark.exhaustive
def test_queued_records_are_written_at_exit_without_a_database_library(store_url):
    """Queued records are written at exit even without close.

    For a file no database library is imported, also by a resumed run: the import takes as long as an offline run. For
    a current store on a server Alembic is not imported.
    """
    if file_of(store_url) is None:
        open_engine(store_url).dispose()
    done = subprocess.run([sys.executable, "-c", FORGETFUL, store_url], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == "set()\n" if file_of(store_url) else "alembic" not in done.stdout
    assert counts(store_url) == {"runs": 1, "turns": 2, "messages": 5, "calls": 2, "events": 5}
