import asyncio
import threading

import pytest

from run_specialist.store import writer as inbox_
from run_specialist.store.writer import Inbox, RunJournal, WriteBatch
from tests.unit.store.records import opened, received, returned


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


@pytest.mark.anyio
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


def test_a_closed_inbox_hands_out_its_records_at_once(patient):
    """A closed inbox hands out its records immediately."""
    journal = RunJournal(patient, "r1")
    journal.write(opened("r1"))
    patient.close()
    batch = patient.next()
    assert batch is not None
    assert len(batch.records[journal]) == 1
    assert patient.next() is None


@pytest.mark.anyio
async def test_a_reply_and_quick_results_share_a_transaction(patient):
    """A reply and the results of quick tools share a transaction: it waits only for calls that follow immediately."""
    journal = RunJournal(patient, "r1")
    thread, batches = batch_taken_by_thread(patient)
    journal.write(received(1))
    journal.write(returned(1))
    waiting = asyncio.ensure_future(journal.committed())
    await asyncio.to_thread(thread.join)
    (batch,) = batches
    assert [type(record).__name__ for record in batch.records[journal]] == ["Received", "Returned"]
    waiting.cancel()


def test_a_reply_is_stored_soon_even_if_no_run_waits(monkeypatch):
    """A reply is stored soon even if no run waits: it was paid for, and its tool may take an hour."""
    monkeypatch.setattr(inbox_, "LINGER", 0.0)
    inbox = Inbox()
    journal = RunJournal(inbox, "r1")
    thread, batches = batch_taken_by_thread(inbox)
    journal.write(received(1))
    thread.join()
    assert [type(record).__name__ for record in batches[0].records[journal]] == ["Received"]


def named(batch: WriteBatch | None) -> list[str]:
    """Return the ids of the runs in a batch, in order."""
    assert batch is not None
    return [journal.run_id for journal in batch.records]


@pytest.mark.anyio
async def test_a_run_waiting_for_records_being_written_is_woken(patient):
    """A run that waits for records being written is woken after the write, even if none of its records is queued."""
    journal = RunJournal(patient, "r0")
    journal.write(opened("r0"))
    patient.close()
    assert named(patient.next()) == ["r0"]
    waiting = asyncio.ensure_future(journal.committed())
    await asyncio.sleep(0)
    batch = patient.next()
    assert named(batch) == []
    batch.settle()
    assert await waiting is None
    assert patient.next() is None
