import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
async def test_many_runs_are_written_in_batches_oldest_first(patient, monkeypatch):
    """Many runs are written in batches, oldest first.

    A run continues once its batch is settled; records that arrive meanwhile are queued.
    """
    monkeypatch.setattr(inbox_, "MAX_RUNS", 2)
    journals = [RunJournal(patient, f"r{number}") for number in range(5)]
    for journal in journals:
        journal.write(opened(journal.run_id))
    waiting = [asyncio.ensure_future(journal.committed()) for journal in journals]
    await asyncio.sleep(0)
    first = patient.next()
    journals[0].write(received(1))
    journals[4].write(received(1))
    first.settle()
    await asyncio.wait(waiting[:2])
    assert [task.done() for task in waiting] == [True, True, False, False, False]
    batches = [patient.next(), patient.next()]
    assert [named(batch) for batch in (first, *batches)] == [["r0", "r1"], ["r2", "r3"], ["r4", "r0"]]
    assert [len(records) for records in batches[1].records.values()] == [2, 1]
    for batch in batches:
        batch.settle()
    await asyncio.wait(waiting)


def test_a_run_is_taken_over_after_its_records_are_written(patient, monkeypatch):
    """A run is taken over only after all its records are written, so that its newest event number is known.

    Other runs need not wait for that.
    """
    monkeypatch.setattr(inbox_, "MAX_RUNS", 2)
    for number in range(5):
        RunJournal(patient, f"r{number}").write(opened(f"r{number}"))
    for run_id in ("r4", "r9", "r0", "r3"):
        patient.ask(run_id, None)
    batches = [patient.next(), patient.next(), patient.next()]
    assert [[run_id for run_id, *_ in batch.questions] for batch in batches] == [["r9", "r0"], ["r3"], ["r4"]]


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


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5))
def test_every_record_is_handed_out_once_in_order(writes, most):
    """Every record is handed out exactly once, and those of each run in order."""
    inbox, handed = Inbox(), {}
    journals = [RunJournal(inbox, str(number)) for number in range(10)]
    written = [(number, received(turn)) for turn, number in enumerate(writes, 1)]
    for number, record in written:
        journals[number].write(record)
    inbox.close()
    whole = inbox_.MAX_RUNS
    inbox_.MAX_RUNS = most
    try:
        while (batch := inbox.next()) is not None:
            assert len(batch.records) <= most
            for journal, records in batch.records.items():
                handed.setdefault(journal.run_id, []).extend(records)
    finally:
        inbox_.MAX_RUNS = whole
    assert handed == {str(one): [record for number, record in written if number == one] for one in set(writes)}
