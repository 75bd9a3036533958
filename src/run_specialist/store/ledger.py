"""An open store as its one writer sees it: whole transactions, and what becomes of them. For one thread."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from run_specialist.errors import NotResumable, StoreUnusable
from run_specialist.store import schema
from run_specialist.store.keeping import RUNNING, Rows
from run_specialist.store.opening import open_engine
from run_specialist.store.owners import Owner, describe, is_alive
from run_specialist.store.place import file_of, shown
from run_specialist.store.stored import StoredRun

_T = TypeVar("_T")

ADDED = (schema.runs, schema.turns, schema.calls, schema.outputs, schema.events)
"""The tables whose rows never change, or only by an update."""


class Ledger:
    """Keeps rows; holds the lock that says that this process lives."""

    def __init__(self, url: str) -> None:
        """Open a store, and make it where there is none.

        Raises StoreUnusable.
        """
        self._url = url
        with ExitStack() as parts:
            engine = open_engine(url)
            parts.callback(engine.dispose)
            self._owner = Owner.take(url)
            parts.callback(self._owner.close)
            self._connection = engine.connect()
            parts.callback(self._connection.close)
            self._parts = parts.pop_all()
        insert = sqlite.insert if self._connection.dialect.name == "sqlite" else postgresql.insert
        self._add = {table.name: insert(table).on_conflict_do_nothing() for table in ADDED}
        begun = insert(schema.runs)
        # A run that goes on is opened again, with the limits and the model that hold now.
        self._add["runs"] = begun.on_conflict_do_update(
            index_elements=["run_id"],
            set_={"frozen": begun.excluded.frozen, "model": begun.excluded.model},
            where=schema.runs.c.owner == begun.excluded.owner,
        )
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
        except (DataError, IntegrityError):
            raise
        except DBAPIError:
            # A connection that broke at the commit may have committed: nothing is doubled by writing it again.
            try:
                self._owner.renew()
                return doing()
            except DBAPIError as error:
                raise StoreUnusable(f"{shown(self._url)}: {_reason(error)}") from error

    def _write(self, batch: Sequence[Rows]) -> set[str]:
        with self._connection.begin():
            self._insert(schema.runs, batch)
            ours = self._ours([rows.run_id for rows in batch])
            mine = [rows for rows in batch if rows.run_id in ours]
            for table in ADDED[1:]:
                self._insert(table, mine)
            self._replace(mine)
            self._change(mine)
        return {rows.run_id for rows in batch} - ours

    def _ours(self, runs: Sequence[str]) -> set[str]:
        """Return those of the runs that nobody has taken over, and let nobody do so before the commit."""
        table = schema.runs.c
        found = select(table.run_id).where(table.run_id.in_(runs), table.owner == self.owner).with_for_update()
        return set(self._connection.execute(found).scalars())

    def _insert(self, table: Table, batch: Sequence[Rows]) -> None:
        if added := [row for rows in batch for row in rows.added.get(table.name, ())]:
            self._connection.execute(self._add[table.name], added)

    def _replace(self, batch: Sequence[Rows]) -> None:
        tails = [(rows.run_id, part, *tail) for rows in batch for part, tail in rows.tails.items()]
        if not tails:
            return
        columns = schema.messages.c
        old = schema.messages.delete().where(
            columns.run_id == bindparam("of_run"),
            columns.part == bindparam("of_part"),
            columns.place >= bindparam("begin"),
        )
        self._connection.execute(old, [{"of_run": run, "of_part": part, "begin": at} for run, part, at, _ in tails])
        if added := [row for *_, messages in tails for row in messages]:
            self._connection.execute(schema.messages.insert(), added)

    def _change(self, batch: Sequence[Rows]) -> None:
        change = update(schema.runs).where(schema.runs.c.run_id == bindparam("of_run"))
        # The names of the values must be the same in all rows of one statement.
        for changes in ([rows.standing for rows in batch], [rows.ending for rows in batch]):
            if changed := [row for row in changes if row]:
                self._connection.execute(change, changed)

    def claim(self, run: StoredRun) -> int:
        """Take over a run that is to go on; return the number of its next event.

        Raises NotResumable when its process lives, or another one was faster, StoreUnusable when nothing can be asked.
        """
        return self._twice(lambda: self._claim(run))

    def _claim(self, run: StoredRun) -> int:
        table = schema.runs.c
        with self._connection.begin():
            asked = select(table.status, table.owner).where(table.run_id == run.run_id)
            found = self._connection.execute(asked).one_or_none()
            if found is None:
                raise NotResumable(f"{run.run_id} is no longer in {shown(self._url)}")
            status, owner = found
            if status == RUNNING and is_alive(self._url, owner):
                raise NotResumable(f"{run.run_id} is still at work: {describe(self._url, owner)}")
            hit = self._connection.execute(
                update(schema.runs)
                .where(table.run_id == run.run_id, table.owner == owner, table.status == status)
                .values(owner=self.owner, status=RUNNING, ended_at=None)
            )
            # Somebody may have gone on with it, and died, since it was read.
            newer = self._count(schema.turns, run) != len(run.turns) or self._count(schema.calls, run) != len(run.calls)
            if hit.rowcount != 1 or newer:
                raise NotResumable(f"another process was faster and went on with {run.run_id}")
            newest = select(func.coalesce(func.max(schema.events.c.number), 0)).where(
                schema.events.c.run_id == run.run_id
            )
            return int(self._connection.execute(newest).scalar_one()) + 1

    def _count(self, table: Table, run: StoredRun) -> int:
        asked = select(func.count()).select_from(table).where(table.c.run_id == run.run_id)
        return int(self._connection.execute(asked).scalar_one())

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


def _reason(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
