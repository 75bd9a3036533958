"""The writer thread, which stores the records of all runs of a process, those of many runs in one transaction.

If the store cannot be written, runs continue with one warning each. Database libraries are imported only in the thread.
"""

import asyncio
import atexit
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from run_specialist.errors import StoreUnusable, UsageError
from run_specialist.record.journal import Ended, EventLogged, Journal, Opened, Received, Record, TakenOver
from run_specialist.store.base import Backoff
from run_specialist.store.location import ELSEWHERE, Location, file_of, shown
from run_specialist.store.owners import GRACE
from run_specialist.store.rows import KnownRun, column_text, rows_of
from run_specialist.store.stored import StoredRun

if TYPE_CHECKING:
    from run_specialist.store.ledger import Ledger


_T = TypeVar("_T")

CLOSED = "the store was closed"
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

    def wait(self, future: "asyncio.Future[None]") -> bool:
        """Resolve a future once all queued records are settled. Return False if the thread has ended."""
        with self.changed:
            if self._finished:
                return False
            self.batch.waiting.append(future)
            self._wake_at_once()
        return True

    def ask(self, question: Callable[["Ledger"], _T]) -> "Future[_T] | None":
        """Let the thread call a function with the open store after the queued records; None if the queue is closed."""
        answer: Future[_T] = Future()
        with self.changed:
            if self.closed:
                return None
            self.batch.questions.append((question, answer))
            self._wake_at_once()
        return answer

    def _wake_at_once(self) -> None:
        if not self._at_once:
            self.urgent = self._at_once = True
            self.changed.notify()

    def next(self) -> "WriteBatch | None":
        """Wait for an urgent entry; return all queued entries, or None after the last one."""
        with self.changed:
            self.changed.wait_for(lambda: self.urgent or self.closed)
            self.changed.wait_for(lambda: self._at_once or self.closed, LINGER)
            batch, self.batch = self.batch, WriteBatch()
            self.urgent = self._at_once = False
            self._finished = self.closed is not None and not batch
            return None if self._finished else batch

    def close(self, why: str = CLOSED) -> None:
        """Close the queue for new entries; queued entries are still processed."""
        with self.changed:
            self.closed = self.closed or why
            self.changed.notify()


@dataclass
class WriteBatch:
    """Queued entries that the writer thread processes together."""

    records: dict["RunJournal", list[Record]] = field(default_factory=dict)
    waiting: list["asyncio.Future[None]"] = field(default_factory=list)
    questions: list[tuple[Callable[["Ledger"], Any], Future[Any]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.records or self.waiting or self.questions)

    def settle(self) -> None:
        """Resolve the waiting futures, with one wake-up per event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for future in self.waiting:
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
        begun: whether the first record of the run is stored already.
        """
        self.has_begun = begun
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
            if self._inbox.wait(future):
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


Records = Mapping[RunJournal, Sequence[Record]]
"""Records by run, in the order of writing."""


PATIENCE = 30.0
"""Timeout for opening a store and for taking over a run [s]."""
PATIENCE_AT_THE_END = 5.0
"""Timeout for writing the queued records when the store is closed [s]."""


class Writer:
    """Writes the records of all runs in a process, from any event loop, to one store."""

    def __init__(self, place: Location, backoff: Backoff | None = None) -> None:
        """Configure a writer; its thread starts and opens the store on the first use.

        backoff: retry schedule during an outage.
        """
        self._url = place.url
        self._is_default = not place.named
        self._backoff = backoff
        self._name = shown(place.url)
        self._inbox = Inbox()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        # Why the writer gave up the store; None while it writes.
        self._failure: str | None = None
        self.was_open = False
        """True once the store was opened successfully."""
        self.owner: str | None = None
        """Token of this process; None until the store is open."""
        # The journals in use, by run.
        self._journals = WeakValueDictionary[str, RunJournal]()

    def check(self) -> None:
        """Wait until the store is open; needed before the first request if the user chose the store.

        Raises StoreUnusable.
        """
        self._ask(lambda _ledger: None)

    @property
    def is_given_up(self) -> bool:
        """True if this writer has given up the store; a new writer may succeed."""
        return self._failure is not None

    def journal(self, run_id: str) -> Journal:
        """Return the journal of a new run; writing to it never raises, even if the store fails."""
        self._start_thread()
        return self._working_on(RunJournal(self._inbox, column_text(run_id)))

    def works_on(self, known: KnownRun) -> bool:
        """Return whether a run of this writer is the stored one; False if it is no longer in use."""
        return known.owner == self.owner and known.run_id in self._journals

    def look(self, run_id: str) -> KnownRun | None:
        """Return a run by its whole id, without its transcript; None if there is none. Blocks.

        Raises StoreUnusable.
        """
        return self._ask(lambda ledger: ledger.look(run_id))

    def begin(self, opened: Opened, more: Sequence[Record] = (), turns: int = 0) -> Journal | KnownRun:
        """Commit the first records of a run, and return its journal; blocks until that is done.

        more, turns: the copied turns of a fork, and their number.

        If a run with this id is stored already, nothing is written, and that run is returned.
        Raises StoreUnusable.
        """
        known = self._ask(lambda ledger: ledger.begin(opened, more))
        return known or self._working_on(RunJournal(self._inbox, opened.run_id, turns=turns, begun=True))

    def claim(self, run: StoredRun) -> Journal:
        """Take over a run to resume it, and return its journal; blocks until the store has answered.

        Raises StoreUnusable, and AtWork if another process works on the run.
        """
        from run_specialist.store.ledger import OwnerLooksDead  # noqa: PLC0415 - as in `_open`

        def claim(ledger: "Ledger", *dead: str) -> RunJournal:
            # A run of this process that was prepared and dropped has a living owner, but is not worked on.
            idle = () if run.run_id in self._journals else (ledger.owner,)
            event, turns = ledger.claim(run, (*dead, *idle)), run.snapshot.turns if run.snapshot else 0
            return self._working_on(RunJournal(self._inbox, run.run_id, event=event, turns=turns))

        try:
            return self._ask(claim)
        except OwnerLooksDead as found:
            owner = found.owner
            # A live process reacquires its lock in this time. Sleeping here does not block the writer thread.
            time.sleep(GRACE)
            return self._ask(lambda ledger: claim(ledger, owner))

    def _working_on(self, journal: RunJournal) -> RunJournal:
        self._journals[journal.run_id] = journal
        return journal

    def _ask(self, question: Callable[["Ledger"], _T]) -> _T:
        """Let the thread call a function with the open store, and return the result; blocks."""
        self._start_thread()
        answer = self._inbox.ask(question)
        if answer is None:
            raise StoreUnusable(self._failure or CLOSED)
        while True:
            try:
                return answer.result(PATIENCE)
            except TimeoutError:
                # During an outage the thread tries again, and then answers or gives up.
                if self._inbox.outage is None:
                    why = f"{self._name} did not respond within {PATIENCE:.0f} seconds; {ELSEWHERE}"
                    raise StoreUnusable(why) from None

    def close(self) -> None:
        """Write queued records, release the owner lock, end the thread; wait at most `PATIENCE_AT_THE_END`."""
        self._inbox.close()
        if self._thread is not None:
            self._thread.join(PATIENCE_AT_THE_END)
        atexit.unregister(self.close)

    def _start_thread(self) -> None:
        with self._starting:
            if self._thread is not None or self._failure is not None:
                return
            thread = threading.Thread(target=self._write_loop, name="run-specialist store", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._failure = f"{self._name}: {error}"
                self._inbox.close(self._failure)
            else:
                self._thread = thread
                atexit.register(self.close)

    def _write_loop(self) -> None:
        ledger = self._open()
        self.was_open, self.owner = ledger is not None, ledger.owner if ledger else None
        while (batch := self._inbox.next()) is not None:
            try:
                self._process(ledger, batch)
            except BaseException as error:  # noqa: BLE001 - an exception that ends the thread would block its waiters
                self._give_up(f"{self._name}: {error!r}", batch.records)
            batch.settle()
            if ledger is not None:
                ledger.sync()
        if ledger is not None:
            with suppress(Exception):
                ledger.close()

    def _open(self) -> "Ledger | None":
        from run_specialist.store.sqlite import make_private  # noqa: PLC0415 - a database library

        def set_outage(why: str | None) -> None:
            self._inbox.outage = why

        try:
            # The import takes half a second and must not block an event loop.
            from run_specialist.store.ledger import Ledger  # noqa: PLC0415 - as above

            path = file_of(self._url)
            if self._is_default and path is not None:
                # A store that the user chose may be shared on purpose.
                make_private(path)
            return Ledger(self._url, self._backoff, set_outage)
        except BaseException as error:  # noqa: BLE001 - a store failure must not fail the run
            self._failure = str(error) if isinstance(error, StoreUnusable) else f"{self._name}: {error!r}"
            return None

    def _process(self, ledger: "Ledger | None", batch: WriteBatch) -> None:
        # After a run has lost records, later ones would leave a gap.
        if records := {journal: queued for journal, queued in batch.records.items() if not journal.lost}:
            self._write(ledger, records)
        for question, answer in batch.questions:
            try:
                if ledger is None or self._failure is not None:
                    raise StoreUnusable(self._failure or CLOSED)  # noqa: TRY301 - raised in the waiting thread
                answer.set_result(question(ledger))
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                is_clear = isinstance(error, UsageError)
                answer.set_exception(error if is_clear else StoreUnusable(f"{self._name}: {error!r}"))

    def _write(self, ledger: "Ledger | None", records: Records) -> None:
        """Write the records of several runs in one transaction; if a row fails, use one transaction per run."""
        if ledger is None or self._failure is not None:
            self._fail(self._failure or CLOSED, records)
            return
        try:
            rows = {run: rows_of(run.run_id, ledger.owner, queued, run.event) for run, queued in records.items()}
            lost = ledger.write_batch(list(rows.values()))
        except StoreUnusable as error:
            self._give_up(str(error), records)
        except Exception as error:  # noqa: BLE001 - an invalid row of one run must not affect the others
            if len(records) == 1:
                self._fail(f"{self._name}: {error!r}", records)
            else:
                for run, queued in records.items():
                    self._write(ledger, {run: queued})
        else:
            for run, queued in records.items():
                if run.run_id in lost:
                    why = "another process has resumed it, or it was deleted"
                    run.mark_failed(why, queued, taken_over=lost[run.run_id])
                else:
                    run.mark_committed(queued, turns=rows[run].turns, events=len(rows[run].added.get("events", ())))

    def _give_up(self, why: str, records: Records) -> None:
        """Stop writing for all runs."""
        self._failure = why
        self._fail(why, records)

    def _fail(self, why: str, records: Records) -> None:
        for journal, queued in records.items():
            journal.mark_failed(why, queued)
