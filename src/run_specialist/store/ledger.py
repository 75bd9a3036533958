"""An open store as its one writer sees it: whole transactions, and what becomes of them. For one thread."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TypeVar

from run_specialist.errors import NotResumable, StoreUnusable
from run_specialist.store import owners
from run_specialist.store.backoff import Backoff
from run_specialist.store.base import StoreAway, StoreBroken
from run_specialist.store.location import file_of, shown
from run_specialist.store.open_session import open_session
from run_specialist.store.owners import describe, is_alive, may_be_cut
from run_specialist.store.statements import ADDED, Values, begun, ending, standing, values
from run_specialist.store.stored import StoredRun
from run_specialist.store.to_rows import RUNNING, Rows

_T = TypeVar("_T")


class OwnerLooksDead(NotResumable):
    """Nobody holds the lock of a run's owner at the moment."""

    def __init__(self, run_id: str, owner: str) -> None:
        # That is what it means where its owner had been found dead before.
        super().__init__(f"another process was faster and went on with {run_id}")
        self.owner = owner


class Ledger:
    """Keeps rows; holds the lock that says that this process lives."""

    def __init__(
        self, url: str, backoff: Backoff | None = None, on_away: Callable[[str | None], None] = lambda _why: None
    ) -> None:
        """Open a store, and make it where there is none.

        backoff: how a store that is away is tried again.
        on_away: called with the reason when the store is away, and with None when it is back or given up.
        Raises StoreUnusable.
        """
        self._url = url
        self._backoff = backoff or Backoff()
        self._on_away = on_away
        self._taking: str | None = None
        """The run that is being taken over, once that may have been committed."""
        with ExitStack() as parts:
            self._session = open_session(url)
            parts.callback(self._session.close)
            self._owner = owners.take(url)
            parts.callback(self._owner.close)
            self._parts = parts.pop_all()
        self._said = self._session.statements
        self._file = file_of(url)
        self._identity = self._identify()

    @property
    def owner(self) -> str:
        """The token of this process."""
        return self._owner.token

    def keep(self, batch: Sequence[Rows]) -> Mapping[str, bool]:
        """Write the rows of some runs in one transaction, and try again while the store is away.

        Return the runs that are ours no longer, which are not written: true where another process works on one, false
        where it was deleted.
        Raises StoreUnusable when the store takes nothing at all; anything else is the fault of one of the rows.
        """
        foreign = self._patiently(lambda: self._write(batch))
        if self._identity != self._identify():
            # Commits go on succeeding into a file that has no name any more.
            raise StoreUnusable(f"{shown(self._url)} was deleted while it was written to")
        return foreign

    def _patiently(self, doing: Callable[[], _T]) -> _T:
        """Do it, a second time where it broke, and again and again while the store is away."""
        pauses = self._backoff.pauses(self._session.patience)
        failed = 0
        while True:
            try:
                done = doing()
            except StoreBroken as error:
                failed += 1
                pause = next(pauses, None)
                if pause is None or (failed > 1 and not isinstance(error, StoreAway)):
                    self._on_away(None)
                    raise StoreUnusable(f"{shown(self._url)}: {error}") from error
                self._on_away(str(error))
                self._backoff.sleep(pause)
                # A connection that broke at the commit may have committed: nothing is doubled by writing it again.
                with suppress(StoreUnusable):
                    self._owner.renew()
            else:
                if failed:
                    self._on_away(None)
                return done

    def _write(self, batch: Sequence[Rows]) -> Mapping[str, bool]:
        # Whoever is told of an outcome is to find it again, whatever becomes of the machine.
        with self._session.transaction(lasting=any(rows.ending for rows in batch)):
            self._put(self._said.begin, [begun(row) for rows in batch for row in rows.added.get("runs", ())])
            ours = self._ours([rows.run_id for rows in batch])
            mine = [rows for rows in batch if rows.run_id in ours]
            for table in ADDED:
                added = [values(table, row) for rows in mine for row in rows.added.get(table, ())]
                self._put(self._said.add[table], added)
            self._replace(mine)
            self._put(self._said.stand, [standing(rows.standing) for rows in mine if rows.standing])
            self._put(self._said.end, [ending(rows.ending) for rows in mine if rows.ending])
            foreign = [rows.run_id for rows in batch if rows.run_id not in ours]
            return {run_id: bool(self._session.read(self._said.whose, (run_id,))) for run_id in foreign}

    def _ours(self, runs: Sequence[str]) -> set[str]:
        """Return those of the runs that nobody has taken over, and let nobody do so before the commit."""
        found = self._session.read(self._said.ours(len(runs)), (self.owner, *runs))
        return {str(run_id) for (run_id,) in found}

    def _put(self, statement: str, rows: Sequence[Values]) -> None:
        if rows:
            self._session.write(statement, rows)

    def _replace(self, batch: Sequence[Rows]) -> None:
        tails = [(rows.run_id, part, *tail) for rows in batch for part, tail in rows.tails.items()]
        self._put(self._said.unsay, [(run_id, part, begin) for run_id, part, begin, _ in tails])
        self._put(self._said.say, [values("messages", row) for *_, messages in tails for row in messages])

    def claim(self, run: StoredRun, dead: Collection[str] = ()) -> int:
        """Take over a run that is to go on; return the number of its next event.

        dead: owners whose lock had been free for a while.
        Raises LooksDead for an owner that is to be looked at once more, NotResumable when its process lives, or another
        one was faster, StoreUnusable when nothing can be asked.
        """
        try:
            return self._patiently(lambda: self._claim(run, dead))
        finally:
            self._taking = None

    def _claim(self, run: StoredRun, dead: Collection[str]) -> int:
        with self._session.transaction():
            found = self._session.read(self._said.whose, (run.run_id,))
            if not found:
                raise NotResumable(f"{run.run_id} is no longer in {shown(self._url)}")
            ((status, owner),) = found
            # The answer to our own commit may have been lost with the connection.
            if self._taking is None or owner != self.owner:
                self._require_over(run.run_id, str(status), str(owner), dead)
            self._taking = run.run_id
            hit = self._session.write(self._said.take, [(self.owner, run.run_id, owner, status)])
            ((turns, calls, event),) = self._session.read(self._said.newest, (run.run_id,) * 3)
            # Somebody may have gone on with it, and died, since it was read.
            if hit != 1 or (turns, calls) != (len(run.turns), len(run.calls)):
                raise NotResumable(f"another process was faster and went on with {run.run_id}")
            return int(str(event)) + 1

    def _require_over(self, run_id: str, status: str, owner: str, dead: Collection[str]) -> None:
        if status != RUNNING:
            return
        if is_alive(self._url, owner):
            raise NotResumable(f"{run_id} is still at work: {describe(self._url, owner)}")
        if may_be_cut(self._url) and owner not in dead:
            raise OwnerLooksDead(run_id, owner)

    def _identify(self) -> tuple[int, int] | None:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close the store and let the lock go."""
        self._parts.close()
