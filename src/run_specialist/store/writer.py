"""The thread that writes for all runs of a process: one transaction for up to a hundred runs that wait.

A store that cannot be written costs a run one warning and nothing else. No database library is imported but there.
"""

import atexit
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from run_specialist.errors import StoreUnusable
from run_specialist.record.journal import Journal
from run_specialist.store.as_text import word
from run_specialist.store.backoff import Backoff
from run_specialist.store.inbox import CLOSED, Batch, Inbox, Records, RunJournal
from run_specialist.store.location import Location, file_of, shown
from run_specialist.store.owners import GRACE
from run_specialist.store.privacy import make_private
from run_specialist.store.stored import StoredRun
from run_specialist.store.to_rows import rows_of

if TYPE_CHECKING:
    from run_specialist.store.ledger import Ledger

PATIENCE = 30.0
"""The longest that opening a store or taking a run over may take [s]."""
PATIENCE_AT_THE_END = 5.0
"""The longest that closing waits for what is not written yet [s]."""


class Writer:
    """Writes for all runs and all loops of a process into one store."""

    def __init__(self, place: Location, backoff: Backoff | None = None) -> None:
        """Take a place; it is opened when the first journal is wanted, on a thread that begins then.

        backoff: how a store that is away is tried again.
        """
        self._url = place.url
        self._is_default = not place.named
        self._backoff = backoff
        self._name = shown(place.url)
        self._inbox = Inbox()
        self._beginning = threading.Lock()
        self._thread: threading.Thread | None = None
        self._opened = threading.Event()
        self._failure: str | None = None
        """Why the store was given up."""
        self.was_open = False
        """True once the store could be opened."""
        self._dead: set[str] = set()
        """Owners of runs that are being taken over, whose lock was free for a while."""

    def check(self) -> None:
        """Wait until the store is open. For a store that somebody named, before anything is asked of a model.

        Raises StoreUnusable.
        """
        self._begin()
        if not self._opened.wait(PATIENCE):
            raise self._too_slow()
        if self._failure is not None:
            raise StoreUnusable(self._failure)

    @property
    def is_given_up(self) -> bool:
        """True when nothing is written any more; another writer may find that it can be."""
        return self._failure is not None

    def journal(self, run_id: str) -> Journal:
        """Return the journal of a new run; whatever becomes of the store, it can be written to."""
        self._begin()
        return RunJournal(self._inbox, word(run_id))

    def claim(self, run: StoredRun) -> Journal:
        """Take over a run that is to go on, and return its journal; waits for the store.

        Raises StoreUnusable, and NotResumable when somebody else works on the run.
        """
        from run_specialist.store.ledger import OwnerLooksDead  # noqa: PLC0415 - as in `_open`

        self.check()
        try:
            return self._claimed(run)
        except OwnerLooksDead as found:
            # A process that lives takes its lock again in this time; here nobody is held up by the wait.
            time.sleep(GRACE)
            owner = found.owner
        self._dead.add(owner)
        try:
            return self._claimed(run)
        finally:
            self._dead.discard(owner)

    def _claimed(self, run: StoredRun) -> Journal:
        claimed = self._inbox.claim(run)
        if claimed is None:
            raise StoreUnusable(CLOSED)
        try:
            return claimed.result(PATIENCE)
        except TimeoutError:
            raise self._too_slow() from None

    def close(self) -> None:
        """Write what is queued, let the lock go, end the thread; a disk that hangs holds it up for 5 seconds."""
        self._inbox.close()
        if self._thread is not None:
            self._thread.join(PATIENCE_AT_THE_END)
        atexit.unregister(self.close)

    def _too_slow(self) -> StoreUnusable:
        return StoreUnusable(f"{self._name} did not answer within {PATIENCE:.0f} seconds; --store names another place")

    def _begin(self) -> None:
        with self._beginning:
            if self._thread is not None or self._failure is not None:
                return
            thread = threading.Thread(target=self._work, name="run-specialist store", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._failure = f"{self._name}: {error}"
                self._inbox.close(self._failure)
                self._opened.set()
            else:
                self._thread = thread
                atexit.register(self.close)

    def _work(self) -> None:
        ledger = self._open()
        self.was_open = ledger is not None
        self._opened.set()
        while (batch := self._inbox.next()) is not None:
            try:
                self._take(ledger, batch)
            except BaseException as error:  # noqa: BLE001 - whatever it is, nobody may wait for a thread that is dead
                self._give_up(f"{self._name}: {error!r}", batch.records)
            batch.settle()
        if ledger is not None:
            with suppress(Exception):
                ledger.close()

    def _open(self) -> "Ledger | None":
        try:
            # Half a second of work, which no loop must wait for.
            from run_specialist.store.ledger import Ledger  # noqa: PLC0415 - likewise

            path = file_of(self._url)
            if self._is_default and path is not None:
                # One that somebody named may be shared on purpose.
                make_private(path)
            return Ledger(self._url, self._backoff, self._inbox.is_away)
        except BaseException as error:  # noqa: BLE001 - no store may cost an answer
            self._failure = str(error) if isinstance(error, StoreUnusable) else f"{self._name}: {error!r}"
            return None

    def _take(self, ledger: "Ledger | None", batch: Batch) -> None:
        # What was on its way when a run lost its store would leave a gap before it.
        if records := {one: those for one, those in batch.records.items() if not one.lost}:
            self._keep(ledger, records)
        for run, claimed in batch.claims:
            try:
                claimed.set_result(self._claim(ledger, run))
            except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
                claimed.set_exception(error)

    def _claim(self, ledger: "Ledger | None", run: StoredRun) -> RunJournal:
        if ledger is None or self._failure is not None:
            raise StoreUnusable(self._failure or CLOSED)
        turns = run.standing.turns if run.standing else 0
        return RunJournal(self._inbox, run.run_id, event=ledger.claim(run, self._dead), turns=turns)

    def _keep(self, ledger: "Ledger | None", records: Records) -> None:
        """Write the records of some runs in one transaction; when that fails, those of each run in one of its own."""
        if ledger is None or self._failure is not None:
            self._lose(self._failure or CLOSED, records)
            return
        try:
            rows = {one: rows_of(one.run_id, ledger.owner, those, one.event) for one, those in records.items()}
            foreign = ledger.keep(list(rows.values()))
        except StoreUnusable as error:
            self._give_up(str(error), records)
        except Exception as error:  # noqa: BLE001 - an odd row of one run must not cost the others theirs
            if len(records) == 1:
                self._lose(f"{self._name}: {error!r}", records)
            else:
                for one, those in records.items():
                    self._keep(ledger, {one: those})
        else:
            for one, those in records.items():
                if one.run_id in foreign:
                    one.lose(
                        "another process goes on with it, or it was deleted", those, to_another=foreign[one.run_id]
                    )
                else:
                    one.kept(those, turns=rows[one].turns, events=rows[one].told)

    def _give_up(self, why: str, records: Records) -> None:
        """Write nothing any more, for any run."""
        self._failure = why
        self._lose(why, records)

    def _lose(self, why: str, records: Records) -> None:
        for journal, those in records.items():
            journal.lose(why, those)
