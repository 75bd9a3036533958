"""The writer thread, which stores all runs of a process in transactions of up to a hundred runs.

If the store cannot be written, runs continue with one warning each. Database libraries are imported only in the thread.
"""

import atexit
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from run_specialist.errors import StoreUnusable, UsageError
from run_specialist.record.journal import Journal, Opened, Record
from run_specialist.store.as_text import column_text
from run_specialist.store.backoff import Backoff
from run_specialist.store.inbox import CLOSED, Inbox, LedgerQuery, Records, RunJournal, WriteBatch
from run_specialist.store.known_run import KnownRun
from run_specialist.store.location import ELSEWHERE, Location, file_of, shown
from run_specialist.store.owners import GRACE
from run_specialist.store.privacy import make_private
from run_specialist.store.stored import StoredRun
from run_specialist.store.to_rows import rows_of

if TYPE_CHECKING:
    from run_specialist.store.ledger import Ledger

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
        self._opened = threading.Event()
        self._failure: str | None = None
        """Why the writer gave up the store; None while it writes."""
        self.was_open = False
        """True once the store was opened successfully."""
        self.owner: str | None = None
        """Token of this process; None until the store is open."""
        self._journals = WeakValueDictionary[str, RunJournal]()
        """The journals in use, by run."""

    def check(self) -> None:
        """Wait until the store is open; needed before the first request if the user chose the store.

        Raises StoreUnusable.
        """
        self._start_thread()
        if not self._opened.wait(PATIENCE):
            raise self._timeout_error()
        if self._failure is not None:
            raise StoreUnusable(self._failure)

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
        self.check()
        known: KnownRun | None = self._ask(run_id, lambda ledger: ledger.look(run_id))
        return known

    def begin(self, opened: Opened, more: Sequence[Record] = (), turns: int = 0) -> Journal | KnownRun:
        """Commit the first records of a run, and return its journal; blocks until that is done.

        more, turns: the copied turns of a fork, and their number.

        If a run with this id is stored already, nothing is written, and that run is returned.
        Raises StoreUnusable.
        """
        self.check()
        known: KnownRun | None = self._ask(opened.run_id, lambda ledger: ledger.begin(opened, more))
        return known or self._working_on(RunJournal(self._inbox, opened.run_id, turns=turns, begun=True))

    def claim(self, run: StoredRun) -> Journal:
        """Take over a run to resume it, and return its journal; blocks until the store has answered.

        Raises StoreUnusable, and AtWork if another process works on the run.
        """
        from run_specialist.store.ledger import OwnerLooksDead  # noqa: PLC0415 - as in `_open`

        self.check()
        try:
            return self._claimed(run, ())
        except OwnerLooksDead as found:
            # A live process reacquires its lock in this time. Sleeping here does not block the writer thread.
            time.sleep(GRACE)
            return self._claimed(run, (found.owner,))

    def _claimed(self, run: StoredRun, dead: Collection[str]) -> Journal:
        def claim(ledger: "Ledger") -> RunJournal:
            # A run of this process that was prepared and dropped has a living owner, but is not worked on.
            idle = () if run.run_id in self._journals else (ledger.owner,)
            event, turns = ledger.claim(run, (*dead, *idle)), run.snapshot.turns if run.snapshot else 0
            return self._working_on(RunJournal(self._inbox, run.run_id, event=event, turns=turns))

        journal: RunJournal = self._ask(run.run_id, claim)
        return journal

    def _working_on(self, journal: RunJournal) -> RunJournal:
        self._journals[journal.run_id] = journal
        return journal

    def _ask(self, run_id: str, question: LedgerQuery) -> Any:  # noqa: ANN401 - the answer to any question
        """Let the thread call a function with the open store, and return the result; blocks."""
        answer = self._inbox.ask(run_id, question)
        if answer is None:
            raise StoreUnusable(self._failure or CLOSED)
        while True:
            try:
                return answer.result(PATIENCE)
            except TimeoutError:
                # During an outage the thread tries again, and then answers or gives up.
                if self._inbox.outage is None:
                    raise self._timeout_error() from None

    def close(self) -> None:
        """Write queued records, release the owner lock, end the thread; wait at most `PATIENCE_AT_THE_END`."""
        self._inbox.close()
        if self._thread is not None:
            self._thread.join(PATIENCE_AT_THE_END)
        atexit.unregister(self.close)

    def _timeout_error(self) -> StoreUnusable:
        return StoreUnusable(f"{self._name} did not respond within {PATIENCE:.0f} seconds; {ELSEWHERE}")

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
                self._opened.set()
            else:
                self._thread = thread
                atexit.register(self.close)

    def _write_loop(self) -> None:
        ledger = self._open()
        self.was_open, self.owner = ledger is not None, ledger.owner if ledger else None
        self._opened.set()
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
        try:
            # The import takes half a second and must not block an event loop.
            from run_specialist.store.ledger import Ledger  # noqa: PLC0415 - as above

            path = file_of(self._url)
            if self._is_default and path is not None:
                # A store that the user chose may be shared on purpose.
                make_private(path)
            return Ledger(self._url, self._backoff, self._inbox.set_outage)
        except BaseException as error:  # noqa: BLE001 - a store failure must not fail the run
            self._failure = str(error) if isinstance(error, StoreUnusable) else f"{self._name}: {error!r}"
            return None

    def _process(self, ledger: "Ledger | None", batch: WriteBatch) -> None:
        # After a run has lost records, later ones would leave a gap.
        if records := {journal: queued for journal, queued in batch.records.items() if not journal.lost}:
            self._write(ledger, records)
        for _, question, answer in batch.questions:
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
                    run.mark_failed(
                        "another process has resumed it, or it was deleted", queued, taken_over=lost[run.run_id]
                    )
                else:
                    run.mark_committed(queued, turns=rows[run].turns, events=rows[run].event_count)

    def _give_up(self, why: str, records: Records) -> None:
        """Stop writing for all runs."""
        self._failure = why
        self._fail(why, records)

    def _fail(self, why: str, records: Records) -> None:
        for journal, queued in records.items():
            journal.mark_failed(why, queued)
