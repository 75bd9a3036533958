"""Read a store: list, find and load runs, and the finished runs of a specialist; delete runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Select, func, select, text

from run_specialist.errors import RunNotFound, StoreUnusable
from run_specialist.store.as_text import column_text
from run_specialist.store.deleting import delete_runs
from run_specialist.store.descendants import children, portions
from run_specialist.store.failures import readable_errors
from run_specialist.store.file_changes import StoredChange, changes_of
from run_specialist.store.forks import forks_of, with_sources
from run_specialist.store.from_rows import stored_run
from run_specialist.store.id_errors import ambiguous, no_such_run
from run_specialist.store.identity import NAMESPACE
from run_specialist.store.location import file_of, shown
from run_specialist.store.opening import open_engine
from run_specialist.store.owners import is_alive
from run_specialist.store.past_runs import newest_outcomes, outcomes_of_file, past_runs
from run_specialist.store.run_rows import run_rows
from run_specialist.store.run_trees import first_trees, newest_first
from run_specialist.store.selection import INTERRUPTED, LISTED, UNENDED, Selection
from run_specialist.store.stored import ListedRun, PastRun, StoredRun
from run_specialist.store.tables import runs
from run_specialist.store.to_rows import RUNNING

LAST = "last"
"""Alias for the newest run that has no parent."""


class Store:
    """A store opened for reading; only `delete` writes to it."""

    def __init__(self, url: str) -> None:
        """Open an existing store; raises StoreUnusable, also if the store does not exist."""
        self.url = url
        self._engine = open_engine(url, write=False)

    def runs(
        self,
        *,
        ids: Sequence[str] = (),
        specialist: str | None = None,
        status: str | None = None,
        before: float | None = None,
        limit: int | None = None,
    ) -> list[ListedRun]:
        """Return runs that match all filters, which are those of `Selection`, newest first.

        limit: maximum number of runs.
        Raises RunNotFound for an empty id, which is a prefix of every id.
        """
        selection = Selection(ids, specialist, status, before)
        with self._snapshot() as connection:
            return self._matching(connection, selection, selection.flat(None if status in UNENDED else limit))[:limit]

    def trees(self, selection: Selection, limit: int | None = None) -> list[ListedRun]:
        """Return the selected runs, newest first.

        limit: maximum number of runs without those whose parent is returned, too.
        """
        with self._snapshot() as connection:
            if limit is None or selection.status in UNENDED:
                # The database does not know these statuses, so it cannot tell whether a parent is selected.
                return first_trees(self._matching(connection, selection, selection.flat()), limit)
            found = self._matching(connection, selection, selection.roots(limit))
            return self._with_children(connection, selection, found)

    def with_descendants(self, found: Sequence[ListedRun]) -> list[ListedRun]:
        """Return these runs and all their descendants, newest first."""
        with self._snapshot() as connection:
            return self._with_children(connection, Selection(), found)

    def active_since(self, selection: Selection, time: float) -> list[ListedRun]:
        """Return the selected runs that have not ended, or that began or ended after a given time, oldest first.

        time: [seconds since 1970].
        """
        with self._snapshot() as connection:
            return self._matching(connection, selection, selection.active_since(time))[::-1]

    def count_left_out(self, selection: Selection) -> int:
        """Return the number of runs of batches that a selection without batches leaves out."""
        with self._snapshot() as connection:
            return int(connection.execute(selection.count_left_out()).scalar_one())

    def count_elsewhere(self, project: str) -> int:
        """Return the number of runs of other projects, and of those whose project is unknown."""
        with self._snapshot() as connection:
            others = select(func.count()).where(runs.c.project.is_distinct_from(column_text(project)))
            return int(connection.execute(others).scalar_one())

    def find(self, run_id: str, project: str | None = None) -> ListedRun:
        """Return the run with this id or unique id prefix; `last` is the newest run that has no parent.

        project: the project that `last` is limited to.
        Raises RunNotFound, which lists matching or similar ids.
        """
        if run_id == LAST:
            newest = Selection(project=project).flat(1).where(runs.c.parent_id.is_(None))
            with self._snapshot() as connection:
                found = connection.execute(newest).first()
            if found is None and project is not None:
                elsewhere = self.count_elsewhere(project)
                others = f"; other projects have {elsewhere:,} run{'s' * (elsewhere != 1)}" if elsewhere else ""
                raise RunNotFound(f"{shown(self.url)} contains no runs of {project} yet{others}")
            run_id = run_id if found is None else found.run_id
        exactly = Selection().flat().where(runs.c.run_id == column_text(run_id))
        with self._snapshot() as connection:
            # By its key: a search for a prefix reads the whole table.
            whole = self._matching(connection, Selection(), exactly)
        matches = whole or self.runs(ids=[run_id])
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise RunNotFound(ambiguous("run", run_id, [match.run_id for match in matches]))
        raise self._not_found(run_id)

    def load(self, run_id: str, project: str | None = None) -> StoredRun:
        """Return a run with all its stored data; the arguments are those of `find`."""
        run_id = self.find(run_id, project).run_id
        try:
            with self._snapshot() as connection:
                found = connection.execute(select(runs).where(runs.c.run_id == run_id)).one_or_none()
                rows = run_rows(connection, run_id)
                child_runs = children(connection, run_id)
            run = found._asdict() if found else None
            if run:
                return stored_run(_listed(run, self._is_dead), run, rows, child_runs)
        except (ValueError, TypeError, LookupError) as error:
            raise StoreUnusable(f"{shown(self.url)}: the data of {run_id} cannot be read: {error!r}") from None
        raise self._not_found(run_id)

    def forks(self, run: StoredRun) -> list[str]:
        """Return the ids of a run's forks, oldest first."""
        with self._snapshot() as connection:
            return forks_of(connection, run.run_id, run.started_at)

    def changes(self, run_id: str) -> list[StoredChange]:
        """Return the changes that a run and its descendants have made to files, oldest first.

        run_id: a full id.
        """
        with self._snapshot() as connection:
            return changes_of(connection, run_id)

    def past(self, specialist: str, project: str | None = None) -> list[PastRun]:
        """Return the runs of a specialist that have an outcome, newest first.

        project: only those of this project; None = all.
        """
        with self._snapshot() as connection:
            return past_runs(connection, specialist, project)

    def outcomes_of_file(self, specialist: str, path: Path, most: int) -> list[Mapping[str, Any]]:
        """Return the outcomes of a specialist's ended runs that began with a given file, newest first.

        most: number of the specialist's newest runs that are searched.
        """
        with self._snapshot() as connection:
            newest = newest_outcomes(connection, specialist, most)
        return outcomes_of_file(newest, path)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete runs and their descendants with all stored data, all or none; return the disk space freed [bytes].

        ids: full ids; unknown ids are ignored.
        Raises UsageError if one of the runs is still running, StoreUnusable if the store cannot be written.
        """
        if not ids:
            return 0
        before = self.size
        # Deleting on a full disk needs exclusive access to the file.
        self._engine.dispose()
        delete_runs(self.url, ids)
        return max(before - self.size, 0)

    @property
    def size(self) -> int:
        """Disk space of the store, including SQLite's WAL [bytes]."""
        if path := file_of(self.url):
            files = (path, path.with_name(f"{path.name}-wal"))
            return sum(file.stat().st_size for file in files if file.exists())
        tables = text(
            "select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c "
            "join pg_namespace n on n.oid = c.relnamespace where n.nspname = :namespace and c.relkind = 'r'"
        )
        with self._snapshot() as connection:
            return int(connection.execute(tables, {"namespace": NAMESPACE}).scalar_one())

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_dead(self, owner: str) -> bool:
        return not is_alive(self.url, owner)

    def _matching(self, connection: Connection, selection: Selection, query: Select[Any]) -> list[ListedRun]:
        """Return the runs of a query that also match the status, which for some depends on the owner's lock."""
        is_dead = cache(self._is_dead)
        rows = connection.execute(query).all()
        found = (ListedRun(**_listed(row._asdict(), is_dead)) for row in rows)
        return with_sources(connection, [run for run in found if selection.status in {None, run.status}])

    def _with_children(
        self, connection: Connection, selection: Selection, found: Sequence[ListedRun]
    ) -> list[ListedRun]:
        """Return runs with those of their descendants that are selected, newest first."""
        known = {one.run_id: one for one in found}
        newest = list(found)
        while newest:
            below = (selection.children(part) for part in portions([one.run_id for one in newest]))
            children = [one for query in below for one in self._matching(connection, selection, query)]
            newest = [one for one in children if one.run_id not in known]
            known |= {one.run_id: one for one in newest}
        return newest_first(known.values())

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        """Return a context with a connection whose transaction sees one snapshot of the store."""
        with readable_errors(self.url), self._engine.begin() as connection:
            yield connection

    def _not_found(self, run_id: str) -> RunNotFound:
        with self._snapshot() as connection:
            return RunNotFound(no_such_run(connection, run_id, shown(self.url)))


def _listed(row: Mapping[str, Any], is_dead: Callable[[str], bool]) -> dict[str, Any]:
    """Return the fields of `ListedRun`; a run without an outcome is interrupted if its process has died."""
    fields = {column.name: row[column.name] for column in LISTED}
    return fields | ({"status": INTERRUPTED} if row["status"] == RUNNING and is_dead(row["owner"]) else {})
