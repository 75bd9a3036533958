"""The lock of an owner shows whether the process that works on a run is alive; only one works on it."""

import asyncio
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from run_specialist.errors import NotResumable, StoreUnusable, UsageError
from run_specialist.record.journal import TakenOver
from run_specialist.store import postgresql, reader
from run_specialist.store import writer as inbox_
from run_specialist.store.location import file_of
from run_specialist.store.owners import acquire, is_alive
from run_specialist.store.postgresql import parsed
from run_specialist.store.reader import Store
from run_specialist.store.sqlite import open_engine
from run_specialist.store.writer import Inbox, RunJournal
from tests.forked_program import ForkedProgram
from tests.stores import make_store, postgresql_url, without_privileges
from tests.unit.store.records import (
    ask,
    begun,
    change,
    counts,
    ended,
    opened,
    received,
    returned,
    stored,
    turn_of,
    write,
)

HOLD = """
import sys
from run_specialist.store.owners import acquire
owner = acquire(sys.argv[1])
print(owner.token, flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(url):
    """Run a process that holds a lock; yield the process and its token."""
    command = [sys.executable, "-W", "error", "-c", HOLD, url]
    with ForkedProgram(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def url(store_url):
    """Return the URL of an existing store."""
    open_engine(store_url).dispose()
    return store_url


def locks(url):
    """Return the names of the lock files of all owners so far."""
    path = file_of(url)
    return {file.name for file in path.with_name(f"{path.name}.owners").iterdir()}


def died(url, token):
    """Wait until a server has noticed the end of a process; return whether the owner counts as dead."""
    if file_of(url) is None:
        # Granted as soon as the session that holds it ends.
        asked = "select pg_advisory_lock((classid::bigint << 32) | objid::bigint) from pg_locks"
        ask(url, f"{asked} where locktype = 'advisory' and granted")
    return not is_alive(url, token)


def test_an_owner_is_alive_until_it_releases_its_lock(url):
    """An owner is alive until it releases its lock; a check does not take the lock; a second release is harmless."""
    owner = acquire(url)
    assert is_alive(url, owner.token)
    assert is_alive(url, owner.token)
    owner.close()
    owner.close()
    assert not is_alive(url, owner.token)


@pytest.mark.exhaustive
def test_a_killed_process_counts_as_dead(url):
    """A killed process counts as dead, since the system releases its lock."""
    with another_process(url) as (process, token):
        assert is_alive(url, token)
        process.kill()
        process.wait()
        assert died(url, token)


def test_a_forked_child_does_not_release_the_lock_of_its_parent(url):
    """A forked child, which inherits and closes copies of everything, does not release its parent's lock."""
    owner = acquire(url)
    child = os.fork()
    if not child:
        owner.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert is_alive(url, owner.token)
    owner.close()


@pytest.fixture
def store(path):
    """Return the URL of a store in a file that does not exist yet."""
    return f"sqlite:///{path}"


@pytest.mark.exhaustive
def test_lock_files_of_dead_owners_are_removed(store):
    """Lock files of dead owners are removed by a check, by the next owner, and by an owner that ends normally."""
    for _ in range(2):
        with another_process(store) as (process, token):
            process.kill()
            process.wait()
    assert len(locks(store)) == 1
    assert not is_alive(store, token)
    assert not locks(store)
    with another_process(store):
        pass
    owner = acquire(store)
    assert len(locks(store)) == 1
    owner.close()
    assert not locks(store)


@pytest.mark.exhaustive
def test_two_simultaneous_checks_share_the_lock(store, tmp_path):
    """Two simultaneous checks do not take each other for the owner, since they share the lock."""
    with another_process(store) as (process, token):
        process.kill()
        process.wait()
    (file,) = (tmp_path / "runs.db.owners").iterdir()
    with file.open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not is_alive(store, token)


def test_a_lock_file_being_created_is_not_removed(store, tmp_path):
    """A lock file that is being created, and is still unlocked and empty, is not removed."""
    folder = tmp_path / "runs.db.owners"
    folder.mkdir()
    (folder / "abc.lock").touch()
    acquire(store).close()
    assert locks(store) == {"abc.lock"}


def test_lock_files_are_accessible_only_to_their_owner(store, tmp_path):
    """Only the owner can access the lock files, since they name a host and a process."""
    owner = acquire(store)
    folder = tmp_path / "runs.db.owners"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    owner.close()


def test_a_store_has_one_lock_folder_under_all_its_names(store, tmp_path):
    """A store has one lock folder under all its path names; otherwise a running run could be resumed."""
    (tmp_path / "link.db").symlink_to(tmp_path / "runs.db")
    owner = acquire(store)
    assert is_alive(f"sqlite:///{tmp_path}/link.db", owner.token)
    owner.close()


def test_a_process_that_may_not_check_a_lock_takes_its_owner_for_alive():
    """If a process may not check the lock, it does not consider the owner dead."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        owner = acquire(f"sqlite:///{name}/runs.db")
        owners = Path(name) / "runs.db.owners"
        for path in owners.iterdir():
            path.chmod(0)
        owners.chmod(0o555)
        with without_privileges():
            assert is_alive(f"sqlite:///{name}/runs.db", owner.token)
            with pytest.raises(StoreUnusable, match=r"cannot create a lock file in .*: Permission denied"):
                acquire(f"sqlite:///{name}/runs.db")
        owners.chmod(0o755)
        owner.close()


PATIENCE = 60
"""Timeout, after which a hanging test fails [s]."""


@pytest.fixture
def url_owner():
    """Return the URL of an empty database; locks need no tables."""
    with postgresql_url() as found:
        yield found


def until(holds):
    """Wait until a condition holds."""
    last = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < last


def cut_owners(url_owner):
    """Terminate only the sessions that hold owners' locks."""
    others = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'process %'"
    assert (True,) in ask(url_owner, f"{others} and datname = current_database()")


def test_the_lock_is_retried_while_the_server_is_away(url_owner, monkeypatch):
    """The thread that holds the lock keeps retrying while the server is away, and survives every refusal."""
    owner, refused = acquire(url_owner), threading.Semaphore(0)
    whole = postgresql.ServerOwner._locked

    def no_server(self):
        refused.release()
        raise StoreUnusable("no server")

    monkeypatch.setattr(postgresql.ServerOwner, "_locked", no_server)
    cut_owners(url_owner)
    for _ in range(3):
        assert refused.acquire(timeout=PATIENCE)
    assert not is_alive(url_owner, owner.token)
    monkeypatch.setattr(postgresql.ServerOwner, "_locked", whole)
    until(lambda: is_alive(url_owner, owner.token))
    owner.close()


SHOWN = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
}


def test_the_server_detects_a_lost_host_within_30_seconds(url_owner):
    """The server detects a vanished host within 30 s; the default of two hours would block resuming its runs."""
    owner = acquire(url_owner)
    shown = {name: owner._connection.execute(text(f"show {name}")).scalar() for name in SHOWN}
    owner.close()
    assert shown == SHOWN


def test_a_new_lock_does_not_wait_for_a_broken_session(url_owner):
    """A new lock does not wait for a broken session that the server still counts as the holder of the lock."""
    owner = acquire(url_owner)
    left_behind = owner._connection
    owner._connection = create_engine(parsed(url_owner)).connect()
    owner._connection.connection.driver_connection.close()
    owner.renew()
    left_behind.close()
    assert is_alive(url_owner, owner.token)
    owner.close()


def test_a_run_whose_lock_was_taken_again_is_not_deleted(url_owner, monkeypatch):
    """A run is not deleted if its process has taken the lock again by the second check."""
    make_store(url_owner, "run-1")
    change(url_owner, "update runs set status = 'running'")
    looks = chain([False], repeat(True))
    monkeypatch.setattr(reader, "GRACE", 0)
    monkeypatch.setattr(reader, "is_alive", lambda _url, _token: next(looks))
    with Store(url_owner) as store:
        with pytest.raises(UsageError, match="run-1 is still running"):
            store.delete(["run-1"])
        assert len(store.runs()) == 1


@pytest.fixture
def cut_off(make_writer, store_url):
    """Create a run of one turn whose process has died."""
    writer = make_writer(store_url)
    assert asyncio.run(write(writer.journal("run-1"), *begun("run-1"), *turn_of(1))) is None
    writer.close()
    return store_url


async def test_s4_5_an_interrupted_run_is_resumed(cut_off, writer):
    """A resumed run has a living owner, keeps its earlier turns, and continues its event numbers."""
    journal = writer.claim(stored("run-1", turns=1))
    ((status, owner),) = ask(cut_off, "select status, owner from runs")
    assert status == "running"
    assert is_alive(cut_off, owner)
    assert await write(journal, *turn_of(2), *ended("run-1")) is None
    assert counts(cut_off) == {"runs": 1, "turns": 2, "messages": 5, "calls": 2, "events": 5}
    assert ask(cut_off, "select number from events order by number") == [(1,), (2,), (3,), (4,), (5,)]


async def test_one_of_two_simultaneous_takeovers_succeeds(cut_off, make_writer):
    """Of two simultaneous attempts one succeeds and the other gets an error."""

    def reach(writer):
        try:
            writer.claim(stored("run-1", turns=1))
        except NotResumable as error:
            return str(error)
        return "mine"

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(reach, [make_writer(cut_off), make_writer(cut_off)]))
    assert told.count("mine") == 1


async def test_a_run_that_advanced_since_it_was_read_is_not_taken_over(cut_off, make_writer):
    """A run that has advanced since it was read is not taken over, and the attempt changes nothing."""
    between = make_writer(cut_off)
    assert await write(between.claim(stored("run-1", turns=1)), *turn_of(2)) is None
    between.close()
    before = ask(cut_off, "select owner, status from runs")
    with pytest.raises(NotResumable, match="another process has already resumed run-1"):
        make_writer(cut_off).claim(stored("run-1", turns=1))
    assert ask(cut_off, "select owner, status from runs") == before


async def test_a_deleted_run_cannot_be_resumed(cut_off, writer):
    """A run that was deleted after it was read cannot be resumed."""
    with pytest.raises(NotResumable, match="run-2 is no longer in "):
        writer.claim(stored("run-2"))


async def test_a_run_taken_over_by_another_process_is_no_longer_written(writer, store_url):
    """A process whose run was taken over stops writing it and is warned once; its other runs are still stored."""
    journals = {run_id: writer.journal(run_id) for run_id in ("run-1", "run-2")}
    for run_id, journal in journals.items():
        await write(journal, *begun(run_id), *turn_of(1))
    change(store_url, "update runs set owner = 'another' where run_id = 'run-1'")
    writing = (write(journal, *turn_of(2)) for journal in journals.values())
    lost, kept = await asyncio.gather(*writing, return_exceptions=True)
    assert isinstance(lost, TakenOver)
    assert str(lost) == "this run is not stored from turn 2 on: another process has resumed it, or it was deleted"
    assert kept is None
    assert [counts(store_url, run_id)["turns"] for run_id in journals] == [1, 2]
    assert await write(journals["run-1"], *turn_of(3), *ended("run-1")) is None
    assert ask(store_url, "select status from runs where run_id = 'run-1'") == [("running",)]
    assert counts(store_url, "run-1") == {"runs": 1, "turns": 1, "messages": 3, "calls": 1, "events": 2}


async def test_a_run_deleted_while_running_is_not_recreated(writer, store_url):
    """A run that was deleted while it was running is not created again."""
    journal = writer.journal("run-1")
    await write(journal, *begun("run-1"))
    change(store_url, "delete from runs")
    assert await write(journal, *turn_of(1)) is not None
    assert counts(store_url)["turns"] == 0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """Return an inbox that waits an hour for further records."""
    monkeypatch.setattr(inbox_, "LINGER", 3600.0)
    return Inbox()


def batch_taken_by_thread(inbox: Inbox) -> tuple[threading.Thread, list[object]]:
    """Take the next batch in a thread, as the writer does."""
    batches: list[object] = []
    thread = threading.Thread(target=lambda: batches.append(inbox.next()), daemon=True)
    thread.start()
    return thread, batches


async def test_records_after_an_urgent_one_join_its_transaction(patient):
    """Records that follow an urgent one join its transaction until a run waits, which then waits for nothing more."""
    journal = RunJournal(patient, "r1")
    thread, batches = batch_taken_by_thread(patient)
    journal.write(opened("r1"))
    journal.write(returned(1))
    waiting = asyncio.ensure_future(journal.committed())
    await asyncio.to_thread(thread.join)
    (batch,) = batches
    assert [type(record).__name__ for record in batch.records[journal]] == ["Opened", "Returned"]
    journal.mark_committed(batch.records[journal], turns=None, events=0)
    batch.settle()
    assert await waiting is None


def test_a_reply_is_stored_soon_even_if_no_run_waits(monkeypatch):
    """A reply is stored soon even if no run waits: it was paid for, and its tool may take an hour."""
    monkeypatch.setattr(inbox_, "LINGER", 0.0)
    inbox = Inbox()
    journal = RunJournal(inbox, "r1")
    thread, batches = batch_taken_by_thread(inbox)
    journal.write(received(1))
    thread.join()
    assert [type(record).__name__ for record in batches[0].records[journal]] == ["Received"]
