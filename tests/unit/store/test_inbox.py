import asyncio
import threading

import pytest

from run_specialist.store import inbox as inbox_
from run_specialist.store.inbox import Inbox, RunJournal
from tests.unit.store.records import opened, received, returned


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """An inbox that would linger for an hour."""
    monkeypatch.setattr(inbox_, "LINGER", 3600.0)
    return Inbox()


def taken_by_a_thread(inbox: Inbox) -> tuple[threading.Thread, list[object]]:
    """Let a thread take the next batch, as the writer does."""
    batches: list[object] = []
    thread = threading.Thread(target=lambda: batches.append(inbox.next()), daemon=True)
    thread.start()
    return thread, batches


@pytest.mark.anyio
async def test_what_follows_something_urgent_goes_with_it_until_somebody_waits(patient):
    """Calls and how the run then stands are one transaction; whoever waits does not wait for more."""
    journal = RunJournal(patient, "r1")
    thread, batches = taken_by_a_thread(patient)
    journal.write(opened("r1"))
    journal.write(returned(1))
    waiting = asyncio.ensure_future(journal.committed())
    await asyncio.to_thread(thread.join)
    (batch,) = batches
    assert [type(record).__name__ for record in batch.records[journal]] == ["Opened", "Returned"]
    journal.kept(batch.records[journal], turns=None, events=0)
    batch.settle()
    assert await waiting is None


def test_nobody_lingers_over_what_is_closed(patient):
    """At the end what is there is handed out at once."""
    journal = RunJournal(patient, "r1")
    journal.write(opened("r1"))
    patient.close()
    batch = patient.next()
    assert batch is not None
    assert len(batch.records[journal]) == 1
    assert patient.next() is None


@pytest.mark.anyio
async def test_a_reply_and_what_a_quick_tool_returns_are_one_transaction(patient):
    """The reply waits no longer than for the calls that follow it at once."""
    journal = RunJournal(patient, "r1")
    thread, batches = taken_by_a_thread(patient)
    journal.write(received(1))
    journal.write(returned(1))
    waiting = asyncio.ensure_future(journal.committed())
    await asyncio.to_thread(thread.join)
    (batch,) = batches
    assert [type(record).__name__ for record in batch.records[journal]] == ["Received", "Returned"]
    waiting.cancel()


def test_a_reply_is_kept_soon_though_nobody_waits(monkeypatch):
    """It was paid for, and the tool that it calls may take an hour."""
    monkeypatch.setattr(inbox_, "LINGER", 0.0)
    inbox = Inbox()
    journal = RunJournal(inbox, "r1")
    thread, batches = taken_by_a_thread(inbox)
    journal.write(received(1))
    thread.join()
    assert [type(record).__name__ for record in batches[0].records[journal]] == ["Received"]
