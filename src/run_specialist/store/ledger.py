"""An open store for its writer thread: write batches in transactions, retry during outages, take over runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TypeVar

from run_specialist.errors import AtWork, NotResumable, StoreUnusable
from run_specialist.record.journal import Opened, Record
from run_specialist.store import owners
from run_specialist.store.base import Backoff, retried
from run_specialist.store.location import file_of, shown
from run_specialist.store.owners import describe, is_alive
from run_specialist.store.rows import KnownRun, Row, Rows, known_run, rows_of
from run_specialist.store.schema import RUNNING, insert, update
from run_specialist.store.sqlite import open_session
from run_specialist.store.stored import StoredRun

_T = TypeVar("_T")

_BEGIN = insert("runs", "ended_at", "duration_s", "standing", "outcome")
# A resumed run gets its new limits, model and question.
_INSERT_RUN = (
    f"{_BEGIN} on conflict (run_id) do update set frozen = excluded.frozen, model = excluded.model, "
    "question = excluded.question, limits_changed = excluded.limits_changed where runs.owner = excluded.owner"
)
_INSERT_SEARCH = f"{insert('search')} on conflict (run_id) do update set question = excluded.question"
# Insert rows that never change.
_INSERT = {table: f"{insert(table)} on conflict do nothing" for table in ("turns", "calls", "events", "changes")}
DELETE_MESSAGES = "delete from messages where run_id = :run_id and part = :part and place >= :place"
_INSERT_MESSAGE = insert("messages")
_UPDATE_SNAPSHOT = update("runs", "standing", "tool_calls", "cost_usd", "duration_s", key="run_id")
_UPDATE_END = update("runs", "status", "ended_at", "duration_s", "outcome", key="run_id")
_UPDATE_ANSWER = update("search", "answer", key="run_id")
_SELECT_OWNER = "select status, owner from runs where run_id = :run_id"
_SELECT_KNOWN = "select status, owner, specialist, model, question, frozen, outcome from runs where run_id = :run_id"
_CHANGE_OWNER = (
    f"update runs set owner = :new_owner, status = '{RUNNING}', ended_at = null "  # noqa: S608
    "where run_id = :run_id and owner = :owner and status = :status"
)
# Counts the stored turns and calls of a run, and returns the number of its newest event.
_COUNT = (
    "select (select count(*) from turns where run_id = :run_id), (select count(*) from calls where run_id = :run_id), "
    "(select coalesce(max(number), 0) from events where run_id = :run_id)"
)


class OwnerLooksDead(AtWork):
    """No process holds the lock of the run's owner at the moment."""

    def __init__(self, run_id: str, owner: str) -> None:
        # `Writer.claim` propagates only the second one; by then the run has a new owner.
        super().__init__(f"another process has already resumed {run_id}")
        self.owner = owner


class Ledger:
    """Writes rows to a store and holds the owner lock of this process."""

    def __init__(
        self, url: str, backoff: Backoff | None = None, on_outage: Callable[[str | None], None] = lambda _why: None
    ) -> None:
        """Open a store; create it if it is missing.

        backoff: retry schedule during an outage.
        on_outage: called with the reason when an outage begins, and with None when it ends or retries are exhausted.
        Raises StoreUnusable.
        """
        self._url = url
        self._backoff = backoff or Backoff()
        self._on_outage = on_outage
        # The run being begun or taken over, set once that may have been committed.
        self._taking: str | None = None
        with ExitStack() as parts:
            self._session = open_session(url)
            parts.callback(self._session.close)
            self._owner = owners.acquire(url)
            self.owner = self._owner.token
            """The token of this process."""
            parts.callback(self._owner.close)
            self._parts = parts.pop_all()
        self._file = file_of(url)
        self._identity = self._identify()

    def write_batch(self, batch: Sequence[Rows]) -> Mapping[str, bool]:
        """Write the rows of several runs in one transaction, with retries during an outage.

        Return the runs that this process no longer owns, which are not written: True if another process has taken the
        run over, False if it was deleted.
        Raises StoreUnusable if the store accepts no writes at all; any other exception is caused by a row.
        """
        # An outcome that was reported must survive a power failure, and what files were before they are replaced.
        lasting = any(rows.ending or "changes" in rows.added for rows in batch)
        lost = self._retried(lambda: self._write(batch), lasting=lasting)
        if self._identity != self._identify():
            # Commits to an unlinked file still succeed.
            raise StoreUnusable(f"{shown(self._url)} was deleted during the run")
        return lost

    def sync(self) -> None:
        """Sync recent commits to disk if that is due; called when no run waits for it."""
        self._session.sync()

    def _retried(self, operation: Callable[[], _T], *, lasting: bool = False) -> _T:
        """Run an operation in a transaction, with retries during an outage."""

        def attempt() -> _T:
            with self._session.transaction(lasting=lasting):
                return operation()

        def renew() -> None:
            # If the connection broke during the commit, the commit may have succeeded; the writes are idempotent.
            with suppress(StoreUnusable):
                self._owner.renew()

        try:
            return retried(attempt, self._url, self._session, self._backoff, self._on_outage, renew)
        finally:
            self._taking = None

    def _write(self, batch: Sequence[Rows]) -> Mapping[str, bool]:
        write, read = self._session.write, self._session.read
        write(_INSERT_RUN, _added("runs", batch))
        # The query also locks the runs that this process still owns against takeover until the commit.
        ids = {f"run_{number}": rows.run_id for number, rows in enumerate(batch)}
        names = ", ".join(f":{name}" for name in ids)
        owned_ids = f"select run_id from runs where owner = :owner and run_id in ({names}){self._session.lock}"  # noqa: S608
        owned = {run_id for (run_id,) in read(owned_ids, owner=self.owner, **ids)}
        kept = [rows for rows in batch if rows.run_id in owned]
        self._add(kept)
        write(_UPDATE_END, [rows.ending for rows in kept if rows.ending])
        write(_INSERT_SEARCH, _added("search", kept))
        write(_UPDATE_ANSWER, [rows.answer for rows in kept if rows.answer])
        return {
            rows.run_id: bool(read(_SELECT_OWNER, run_id=rows.run_id)) for rows in batch if rows.run_id not in owned
        }

    def _add(self, batch: Sequence[Rows]) -> None:
        """Write turns, calls, events, messages and snapshots."""
        write = self._session.write
        for table, statement in _INSERT.items():
            write(statement, _added(table, batch))
        tails = [(rows.run_id, part, *tail) for rows in batch for part, tail in rows.tails.items()]
        write(DELETE_MESSAGES, [{"run_id": run, "part": part, "place": begin} for run, part, begin, _ in tails])
        write(_INSERT_MESSAGE, [row for *_, messages in tails for row in messages])
        write(_UPDATE_SNAPSHOT, [rows.snapshot for rows in batch if rows.snapshot])

    def look(self, run_id: str) -> KnownRun | None:
        """Return a run by its whole id, without its transcript; None if there is none.

        Raises StoreUnusable if the store cannot be queried.
        """
        return self._retried(lambda: self._known(run_id))

    def _known(self, run_id: str) -> KnownRun | None:
        found = self._session.read(_SELECT_KNOWN, run_id=run_id)
        try:
            return known_run(run_id, *found[0]) if found else None
        except (ValueError, TypeError, LookupError) as error:
            raise StoreUnusable(f"{shown(self._url)}: the data of {run_id} cannot be read: {error!r}") from None

    def begin(self, opened: Opened, more: Sequence[Record] = ()) -> KnownRun | None:
        """Commit the first records of a new run, unless a run with its id is stored; return that one, or None.

        more: the copied turns of a fork.
        The run belongs to this process before its first request: no other process can begin it.
        Raises StoreUnusable if the store cannot be written.
        """
        rows = rows_of(opened.run_id, self.owner, [opened, *more], 1)
        return self._retried(lambda: self._begin(rows))

    def _begin(self, rows: Rows) -> KnownRun | None:
        if not self._session.write(f"{_BEGIN} on conflict (run_id) do nothing", rows.added["runs"]):
            known = self._known(rows.run_id)
            # If the connection broke during our commit, the run may be the one that this call has begun.
            return None if known and self._taking == rows.run_id and known.owner == self.owner else known
        self._taking = rows.run_id
        self._session.write(_INSERT_SEARCH, rows.added["search"])
        self._add([rows])
        return None

    def claim(self, run: StoredRun, dead: Collection[str] = ()) -> int:
        """Take over a run to resume it; return the number of its next event.

        dead: owners whose lock was still free after `GRACE`; and this process, if it does not work on the run.
        Raises OwnerLooksDead for an owner that must be checked again, AtWork if the owner is alive or another process
        was faster, NotResumable if the run was deleted, StoreUnusable if the store cannot be queried.
        """
        return self._retried(lambda: self._claim(run, dead))

    def _claim(self, run: StoredRun, dead: Collection[str]) -> int:
        found = self._session.read(_SELECT_OWNER, run_id=run.run_id)
        if not found:
            raise NotResumable(f"{run.run_id} is no longer in {shown(self._url)}")
        ((status, owner),) = found
        # If the connection broke during our commit, this process may own the run already.
        if self._taking is None or owner != self.owner:
            is_idle = status != RUNNING or (owner == self.owner and owner in dead)
            if not is_idle and is_alive(self._url, owner):
                raise AtWork(f"{run.run_id} is still running: {describe(self._url, owner)}")
            if not is_idle and file_of(self._url) is None and owner not in dead:
                raise OwnerLooksDead(run.run_id, owner)
        self._taking = run.run_id
        change = {"new_owner": self.owner, "run_id": run.run_id, "owner": owner, "status": status}
        hit = self._session.write(_CHANGE_OWNER, [change])
        ((turns, calls, event),) = self._session.read(_COUNT, run_id=run.run_id)
        # Another process may have resumed the run, and died, since it was loaded.
        if hit != 1 or (turns, calls) != (len(run.turns), len(run.calls)):
            raise AtWork(f"another process has already resumed {run.run_id}")
        return int(event) + 1

    def _identify(self) -> tuple[int, int] | None:
        with suppress(OSError):
            if self._file is not None:
                found = self._file.stat()
                return found.st_dev, found.st_ino
        return None

    def close(self) -> None:
        """Close the store and release the owner lock."""
        self._parts.close()


def _added(table: str, batch: Sequence[Rows]) -> list[Row]:
    return [row for rows in batch for row in rows.added.get(table, ())]
