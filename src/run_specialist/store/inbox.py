"""The queue between the event loops and the writer thread: pending records and the tasks that wait for them."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from run_specialist.record.journal import Ended, EventLogged, Opened, Received, Record, TakenOver

if TYPE_CHECKING:
    from run_specialist.store.ledger import Ledger

CLOSED = "the store was closed"
MAX_RUNS = 100
"""Maximum number of runs per transaction, which bounds the rows in memory."""
LINGER = 0.002
"""How long to collect more records for a transaction, unless a task waits for the commit [s]."""


class Inbox:
    """A thread-safe FIFO queue of records with one consumer thread."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        """Guards the fields below; notified when the writer thread has something to do."""
        self.batch = WriteBatch()
        """The queued entries; a journal adds its records itself, since each turn writes eight of them."""
        self.urgent = self._at_once = False
        """Whether the writer thread is to begin."""
        self._finished = False
        self.closed: str | None = None
        """Why the queue is closed; None while it is open."""
        self.outage: str | None = None
        """Reason for the current outage of the store; None if it can be written."""

    def wait(self, journal: "RunJournal", future: "asyncio.Future[None]") -> bool:
        """Resolve a future once all queued records of a run are settled. Return False if the thread has ended."""
        with self.changed:
            if self._finished:
                return False
            self.batch.waiting.append((journal, future))
            self._wake_at_once()
        return True

    def ask(self, run_id: str, question: "LedgerQuery") -> "Future[Any] | None":
        """Let the thread call a function with the open store, after a run's records; None if the queue is closed."""
        answer: Future[Any] = Future()
        with self.changed:
            if self.closed:
                return None
            self.batch.questions.append((run_id, question, answer))
            self._wake_at_once()
        return answer

    def _wake_at_once(self) -> None:
        if not self._at_once:
            self.urgent = self._at_once = True
            self.changed.notify()

    def next(self) -> "WriteBatch | None":
        """Wait for an urgent entry; return the queued entries of up to `MAX_RUNS` runs, or None after the last one."""
        with self.changed:
            self.changed.wait_for(lambda: self.urgent or self.closed)
            self.changed.wait_for(lambda: self._at_once or self.closed, LINGER)
            batch, self.batch = self.batch, self.batch.split_off(MAX_RUNS)
            # Entries for the next batch have waited long enough.
            self.urgent = self._at_once = bool(self.batch)
            self._finished = self.closed is not None and not batch
            return None if self._finished else batch

    def set_outage(self, why: str | None) -> None:
        """Set the reason for an outage; None if the store can be written or is given up."""
        self.outage = why

    def close(self, why: str = CLOSED) -> None:
        """Close the queue for new entries; queued entries are still processed."""
        with self.changed:
            self.closed = self.closed or why
            self.changed.notify()


@dataclass
class WriteBatch:
    """Queued entries that the writer thread processes together."""

    records: dict["RunJournal", list[Record]] = field(default_factory=dict)
    waiting: list[tuple["RunJournal", "asyncio.Future[None]"]] = field(default_factory=list)
    questions: list[tuple[str, "LedgerQuery", Future[Any]]] = field(default_factory=list)
    """Each with the id of its run."""

    def __bool__(self) -> bool:
        return bool(self.records or self.waiting or self.questions)

    def split_off(self, most: int) -> "WriteBatch":
        """Keep the first `most` runs; return a batch of the others with their waiting futures and questions."""
        others = dict(islice(self.records.items(), most, None))
        if not others:
            return WriteBatch()
        # The answer must include the run's records; a claim continues the numbers of its events.
        late = {journal.run_id for journal in others}
        questions = [one for one in self.questions if one[0] in late]
        waiting = [(journal, future) for journal, future in self.waiting if journal in others]
        self.records = dict(islice(self.records.items(), most))
        self.questions = [one for one in self.questions if one[0] not in late]
        self.waiting = [(journal, future) for journal, future in self.waiting if journal not in others]
        return WriteBatch(others, waiting, questions)

    def settle(self) -> None:
        """Resolve the waiting futures, with one wake-up per event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for _, future in self.waiting:
            by_loop.setdefault(future.get_loop(), []).append(future)
        for loop, futures in by_loop.items():
            # Raised if the loop is closed; then no task waits in it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: Sequence["asyncio.Future[None]"]) -> None:
    for future in futures:
        # The waiting task may have been cancelled.
        if not future.done():
            future.set_result(None)


class RunJournal:
    """The journal of one run; implements `journal.Journal` by queueing records for the writer thread."""

    def __init__(
        self, inbox: Inbox, run_id: str, *, event: int = 1, turns: int | None = None, begun: bool = False
    ) -> None:
        """Start a journal.

        event: number of the run's next event.
        turns: number of stored turns; None if the run is not stored yet.
        begun: whether the first record of the run is stored already, so that it is not written again.
        """
        self._begun = begun
        self._inbox = inbox
        self.run_id = run_id
        self.event = event
        """Number of the next event; updated by the writer thread."""
        self._turns = turns
        self._written = self._settled = 0
        self._ended = False
        self.lost = False
        """Whether the journal has failed; queued records are then discarded too."""
        self._reason: str | None = None
        self._taken_over = False

    @property
    def outage(self) -> str | None:
        """Reason for the current outage of the store; None if there is none or the journal has failed."""
        return None if self.lost else self._inbox.outage

    def write(self, record: Record) -> None:
        """Enqueue a record; never blocks and never raises."""
        if self.lost:
            return
        if self._begun and isinstance(record, Opened):
            # A later one is written: the run has changed its model.
            self._begun = False
            return
        # No urgent record follows the events after the end, so they must trigger the write themselves.
        urgent = self._ended or not isinstance(record, EventLogged)
        self._ended = self._ended or isinstance(record, Ended)
        self._written += 1
        inbox = self._inbox
        with inbox.changed:
            if inbox.closed is None:
                inbox.batch.records.setdefault(self, []).append(record)
                if urgent and not inbox.urgent:
                    inbox.urgent = True
                    inbox.changed.notify()
                return
        self.mark_failed(inbox.closed, [record])

    async def committed(self) -> str | None:
        """Wait until all records are committed; return the reason for a failure in one line, only the first time.

        Raises TakenOver instead if another process works on the run.
        """
        await self.has_stored()
        reason, self._reason = self._reason, None
        if reason and self._taken_over:
            raise TakenOver(reason)
        return reason

    async def has_stored(self) -> bool:
        """Wait until all records are settled; return whether none is lost. `committed` still returns the reason."""
        if self._settled < self._written and not self.lost:
            future = asyncio.get_running_loop().create_future()
            if self._inbox.wait(self, future):
                await future
        return not self.lost

    def mark_committed(self, records: Sequence[Record], *, turns: int | None, events: int) -> None:
        """Register committed records.

        turns: number of turns completed with them; None if they contain no checkpoint.
        """
        self.event += events
        self._turns = turns if turns is not None else self._turns or 0
        self._settled += len(records)

    def mark_failed(self, why: str, records: Sequence[Record], *, taken_over: bool = False) -> None:
        """Mark the journal as failed; later records are discarded.

        records: the first records that are lost.
        taken_over: another process works on the run.
        """
        if self.lost:
            return
        kinds = {type(record) for record in records}
        if self._turns is None:
            lost = "this run is not stored"
        elif Ended in kinds and Received not in kinds:
            lost = "the end of this run is not stored"
        else:
            lost = f"this run is not stored from turn {self._turns + 1} on"
        self._reason, self._taken_over, self.lost = f"{lost}: {why}", taken_over, True


LedgerQuery = Callable[["Ledger"], Any]
"""A function that is called with the open store."""
Records = Mapping[RunJournal, Sequence[Record]]
"""Records by run, in the order of writing."""
