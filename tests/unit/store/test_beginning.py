"""A run with a given id belongs to one process from its first record on, and can be looked up by its whole id."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from run_specialist.errors import StoreUnusable
from run_specialist.record.journal import TakenOver
from run_specialist.store import writer as writers
from run_specialist.store.base import Backoff, StoreOutage
from run_specialist.store.ledger import Ledger
from run_specialist.store.location import Location
from run_specialist.store.rows import KnownRun
from run_specialist.store.sqlite import FileSession
from run_specialist.store.writer import Inbox, RunJournal, Writer
from tests.unit.store.records import ask, begun, change, counts, ended, opened, outcome, turn_of, write

pytestmark = pytest.mark.anyio


async def test_a_begun_run_is_stored_at_once(writer, store_url):
    """A begun run is stored with its question; its first record is not written again, and its events count from 1."""
    journal = await asyncio.to_thread(writer.begin, opened("run-1"))
    assert ask(store_url, "select run_id, status from runs") == [("run-1", "running")]
    change(store_url, "update runs set model = 'changed'")
    assert await write(journal, *begun("run-1"), *turn_of(1), *ended("run-1")) is None
    assert ask(store_url, "select status, model from runs") == [("answered", "changed")]
    assert counts(store_url) == {"runs": 1, "turns": 1, "messages": 3, "calls": 1, "events": 3}
    assert ask(store_url, "select number from events order by number") == [(1,), (2,), (3,)]
    assert len(ask(store_url, "select question from search")) == 1


async def test_of_two_processes_that_begin_an_id_one_gets_it(make_writer, store_url):
    """Exactly one of many concurrent attempts, in two processes, gets the run; the others get the stored run."""
    one, other = make_writer(store_url), make_writer(store_url)
    for writer in (one, other):
        writer.check()
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda writer: writer.begin(opened("run-1")), [one, other] * 4)]
    assert sum(isinstance(each, RunJournal) for each in found) == 1
    known = [each for each in found if isinstance(each, KnownRun)]
    assert {(each.run_id, each.status, each.is_running, each.ended) for each in known} == {
        ("run-1", "running", True, None)
    }
    assert sum(one.works_on(known[0]) + other.works_on(known[0]) for _ in [0]) == 1


async def test_a_stored_run_is_left_as_it_is(writer, store_url):
    """Beginning an id that is stored changes nothing, also not its texts for searches."""
    assert await write(writer.journal("run-1"), *begun("run-1"), *ended("run-1")) is None
    before = ask(store_url, "select * from runs"), ask(store_url, "select * from search")
    known = writer.begin(opened("run-1", question="Another?", model="other"))
    assert (known.question, known.model, known.ended) == ("What is known?", "scripted", outcome("run-1"))
    assert (ask(store_url, "select * from runs"), ask(store_url, "select * from search")) == before


async def test_damaged_data_is_one_line(writer, store_url):
    """A run whose data cannot be read is refused in one line that names it."""
    await write(writer.begin(opened("run-1")), *turn_of(1))
    change(store_url, "update runs set frozen = question")
    with pytest.raises(StoreUnusable, match="the data of run-1 cannot be read: JSONDecodeError") as refused:
        writer.look("run-1")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("is_ours", [True, False])
async def test_a_lost_response_does_not_lose_or_steal_the_run(lasting, path, monkeypatch, is_ours):
    """If the response to the commit is lost, the retry finds its own run; a run of another process stays theirs."""
    lasting.check()
    whole, broken = FileSession.transaction, []

    class Broken:
        def __init__(self, inner):
            self.inner = inner

        def __enter__(self):
            return self.inner.__enter__()

        def __exit__(self, *raised):
            done = self.inner.__exit__(*raised)
            if not broken:
                broken.append(True)
                if not is_ours:
                    change(f"sqlite:///{path}", "update runs set owner = 'another'")
                raise StoreOutage("the connection broke")
            return done

    monkeypatch.setattr(FileSession, "transaction", lambda self, **how: Broken(whole(self, **how)))
    found = lasting.begin(opened("run-1"))
    assert broken
    assert isinstance(found, RunJournal if is_ours else KnownRun)
    assert isinstance(lasting.begin(opened("run-1")), KnownRun)


async def test_a_begun_run_that_was_taken_over_is_not_written(writer, store_url):
    """A begun run that another process has taken over is not written any more, as any other."""
    journal = writer.begin(opened("run-1"))
    change(store_url, "update runs set owner = 'another'")
    with pytest.raises(TakenOver, match="this run is not stored from turn 1 on: another process has resumed it"):
        await write(journal, *begun("run-1"), *turn_of(1))


class Watched(Inbox):
    """An inbox that counts how often somebody asks for an outage."""

    why = None

    def __init__(self):
        super().__init__()
        self.asked_again = threading.Event()
        self._asked = 0

    @property
    def outage(self):
        """The reason for the outage."""
        self._asked += self.why is not None
        if self._asked > 2:
            self.asked_again.set()
        return self.why

    @outage.setter
    def outage(self, why):
        self.why = why


@pytest.mark.exhaustive
def test_a_beginning_waits_for_the_end_of_an_outage(path, monkeypatch):
    """A run is begun as soon as an outage ends, also if that takes longer than the wait for a slow store."""
    inbox = Watched()
    writer = Writer(Location(f"sqlite:///{path}", named=True), Backoff(sleep=lambda _: inbox.asked_again.wait(60)))
    writer._inbox = inbox
    writer.check()
    whole, failed = Ledger._begin, []

    def fail_once(self, rows):
        if len(failed) < 2:
            failed.append(True)
            raise StoreOutage("the server restarts")
        return whole(self, rows)

    monkeypatch.setattr(Ledger, "_begin", fail_once)
    # Long enough for the first failure.
    monkeypatch.setattr(writers, "PATIENCE", 1.0)
    try:
        assert isinstance(writer.begin(opened("run-1")), RunJournal)
        assert inbox.asked_again.is_set()
    finally:
        writer.close()


def test_a_beginning_does_not_wait_for_a_store_that_hangs(lasting, monkeypatch):
    """Without an outage a store that does not answer is given up."""
    lasting.check()
    goes_on, whole = threading.Event(), Ledger._begin
    monkeypatch.setattr(Ledger, "_begin", lambda self, rows: goes_on.wait(60) and whole(self, rows))
    monkeypatch.setattr(writers, "PATIENCE", 0.001)
    try:
        with pytest.raises(StoreUnusable, match="did not respond within"):
            lasting.begin(opened("run-1"))
    finally:
        goes_on.set()
