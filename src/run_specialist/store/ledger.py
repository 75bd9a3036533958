"""An open store as its one writer sees it: whole transactions, and what becomes of them. For one thread."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from run_specialist.errors import NotResumable, StoreUnusable
from run_specialist.store import owners
from run_specialist.store.keeping import RUNNING, Rows
from run_specialist.store.owners import describe, is_alive
from run_specialist.store.place import file_of, shown
from run_specialist.store.session import Broken
from run_specialist.store.sessions import open_session
from run_specialist.store.statements import ADDED, Values, begun, ending, standing, values
from run_specialist.store.stored import StoredRun

_T = TypeVar("_T")


class Ledger:
    """Keeps rows; holds the lock that says that this process lives."""

    def __init__(self, url: str) -> None:
        """Open a store, and make it where there is none.

        Raises StoreUnusable.
        """
        self._url = url
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

    def keep(self, batch: Sequence[Rows]) -> set[str]:
        """Write the rows of some runs in one transaction; return the runs that are ours no longer, not written.

        Raises StoreUnusable when the store takes nothing at all; anything else is the fault of one of the rows.
        """
        foreign = self._twice(lambda: self._write(batch))
        if self._identity != self._identify():
            # Commits go on succeeding into a file that has no name any more.
            raise StoreUnusable(f"{shown(self._url)} was deleted while it was written to")
        return foreign

    def _twice(self, doing: Callable[[], _T]) -> _T:
        try:
            return doing()
        except Broken:
            # A connection that broke at the commit may have committed: nothing is doubled by writing it again.
            self._owner.renew()
            try:
                return doing()
            except Broken as error:
                raise StoreUnusable(f"{shown(self._url)}: {error}") from error

    def _write(self, batch: Sequence[Rows]) -> set[str]:
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
        return {rows.run_id for rows in batch} - ours

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

    def claim(self, run: StoredRun) -> int:
        """Take over a run that is to go on; return the number of its next event.

        Raises NotResumable when its process lives, or another one was faster, StoreUnusable when nothing can be asked.
        """
        return self._twice(lambda: self._claim(run))

    def _claim(self, run: StoredRun) -> int:
        with self._session.transaction():
            found = self._session.read(self._said.whose, (run.run_id,))
            if not found:
                raise NotResumable(f"{run.run_id} is no longer in {shown(self._url)}")
            ((status, owner),) = found
            if status == RUNNING and is_alive(self._url, str(owner)):
                raise NotResumable(f"{run.run_id} is still at work: {describe(self._url, str(owner))}")
            hit = self._session.write(self._said.take, [(self.owner, run.run_id, owner, status)])
            ((turns, calls, event),) = self._session.read(self._said.newest, (run.run_id,) * 3)
            # Somebody may have gone on with it, and died, since it was read.
            if hit != 1 or (turns, calls) != (len(run.turns), len(run.calls)):
                raise NotResumable(f"another process was faster and went on with {run.run_id}")
            return int(str(event)) + 1

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
