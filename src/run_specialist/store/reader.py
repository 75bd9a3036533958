"""Load, follow and delete stored runs."""

import json
import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Select, bindparam, delete, exists, func, select, text
from sqlalchemy.exc import DBAPIError

from run_specialist.errors import RunNotFound, StoreUnusable, UsageError
from run_specialist.record.journal import FileChanging, Received, Returned
from run_specialist.store.location import LAST, NAMESPACE, file_of, shown
from run_specialist.store.owners import GRACE, describe, is_alive
from run_specialist.store.rows import column_text, outcome, parsed, stored_run
from run_specialist.store.schema import OPEN, PAUSED, RUNNING
from run_specialist.store.selection import (
    INTERRUPTED,
    LISTED,
    NEWEST_FIRST,
    UNENDED,
    Selection,
    ambiguous,
    children,
    fetched,
    with_descendants,
    with_sources,
)
from run_specialist.store.sqlite import ALONE, connect, open_engine
from run_specialist.store.stored import MARK, ListedRun, PastRun, StoredRun, first_trees, newest_first
from run_specialist.store.tables import batches, calls, changes, items, metadata, readable_errors, runs, turns

NEEDS_SPACE = (
    "free disk space, or delete all runs with --all --all-projects, which needs none if no other process uses the store"
)
# The rows of runs by table.
_ORDERED = {
    name: select(metadata.tables[name]).order_by(*metadata.tables[name].primary_key)
    for name in ("turns", "calls", "messages", "events")
}


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change that a run was about to make; whether it was made, only the file shows."""

    run_id: str
    root: str
    """The folder that its path is relative to."""
    change: FileChanging


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The requests and calls of a run."""

    run_id: str
    specialist: str
    model: str
    status: str
    """Status of the outcome; `running` without one."""
    started_at: float
    """[seconds since 1970]"""
    ended_at: float | None
    """[seconds since 1970]"""
    requests: tuple[Received, ...]
    calls: tuple[Returned, ...]


class OpenedStore:
    """A store opened for reading, as a context manager."""

    def __init__(self, url: str) -> None:
        """Open an existing store; raises StoreUnusable, also if the store does not exist."""
        self.url = url
        self._engine = open_engine(url, write=False)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_dead(self, owner: str) -> bool:
        return not is_alive(self.url, owner)

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        """Return a context with a connection whose transaction sees one snapshot of the store."""
        with readable_errors(self.url), self._engine.begin() as connection:
            yield connection


class Store(OpenedStore):
    """The runs of a store opened for reading; only `delete` writes to it."""

    def runs(self, *, ids: Sequence[str] = (), status: str | None = None, limit: int | None = None) -> list[ListedRun]:
        """Return runs that match all filters, which are those of `Selection`, newest first.

        limit: maximum number of runs.
        Raises RunNotFound for an empty id, which is a prefix of every id.
        """
        selection = Selection(ids, status=status)
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
        """Return the run with this id or unique id prefix; `last` is the newest one that a person started.

        project: the project that `last` is limited to.
        Raises RunNotFound, which lists matching ids.
        """
        if run_id == LAST:
            by_people = Selection(project=project, without_batches=True)
            with self._snapshot() as connection:
                found = connection.execute(by_people.flat(1).where(runs.c.parent_id.is_(None))).first()
            if found is None and self.count_left_out(by_people):
                raise RunNotFound(f"`last`: {shown(self.url)} contains only runs of batches here; name one by its id")
            if found is None and project is not None:
                elsewhere = self.count_elsewhere(project)
                others = f"; other projects have {elsewhere:,} run{'s' * (elsewhere != 1)}" if elsewhere else ""
                raise RunNotFound(f"{shown(self.url)} contains no runs of {project} yet{others}")
            run_id = run_id if found is None else found.run_id
        with self._snapshot() as connection:
            # By its key: a search for a prefix reads the whole table.
            exactly = Selection().flat().where(runs.c.run_id == column_text(run_id))
            matches = self._matching(connection, Selection(), exactly)
        matches = matches or self.runs(ids=[run_id])
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
                rows = {
                    name: [
                        row._asdict() for row in fetched(connection, query, metadata.tables[name].c.run_id, [run_id])
                    ]
                    for name, query in _ORDERED.items()
                }
                child_runs = children(connection, run_id)
            if found:
                run = found._asdict()
                return stored_run(_listed(run, self._is_dead), run, rows, child_runs)
        except (ValueError, TypeError, LookupError) as error:
            raise StoreUnusable(f"{shown(self.url)}: the data of {run_id} cannot be read: {error!r}") from None
        raise self._not_found(run_id)

    def forks(self, run: StoredRun) -> list[str]:
        """Return the ids of a run's forks, oldest first."""
        later = (
            select(runs.c.run_id, runs.c.frozen)
            .where(runs.c.started_at >= run.started_at, runs.c.run_id.endswith(MARK))
            .order_by(runs.c.started_at, runs.c.run_id)
        )
        with self._snapshot() as connection:
            origins = {fork: json.loads(frozen).get("fork") for fork, frozen in connection.execute(later)}
        return [fork for fork, origin in origins.items() if origin and origin["run_id"] == run.run_id]

    def changes(self, run_id: str) -> list[StoredChange]:
        """Return the changes that a run and its descendants have made to files, oldest first.

        run_id: a full id.
        """
        query = select(changes, runs.c.frozen).join(runs, runs.c.run_id == changes.c.run_id)
        with self._snapshot() as connection:
            found = [
                StoredChange(row.run_id, str(json.loads(row.frozen).get("root", "")), parsed(FileChanging, row.body))
                for row in fetched(connection, query, runs.c.run_id, with_descendants(connection, [run_id]))
            ]
        return sorted(found, key=lambda one: (one.change.at, one.change.change_id))

    def past(self, specialist: str, project: str | None = None) -> list[PastRun]:
        """Return the runs of a specialist that have an outcome, newest first.

        project: only those of this project; None = all.
        """
        chosen = [] if project is None else [runs.c.project == column_text(project)]
        finished = (runs.c.specialist == column_text(specialist), runs.c.outcome.is_not(None), *chosen)
        counted = (
            select(calls.c.run_id, func.count(), func.count().filter(calls.c.repeated))
            .join(runs, runs.c.run_id == calls.c.run_id)
            .where(*finished)
            .group_by(calls.c.run_id)
        )
        columns = (runs.c.run_id, runs.c.started_at, runs.c.outcome, runs.c.digest, runs.c.limits_changed)
        ended = select(*columns).where(*finished).order_by(*NEWEST_FIRST)
        with self._snapshot() as connection:
            counts = {run_id: (made, repeated) for run_id, made, repeated in connection.execute(counted)}
            return [
                PastRun(run_id, started_at, outcome(body) or {}, *counts.get(run_id, (0, 0)), *version)
                for run_id, started_at, body, *version in connection.execute(ended)
            ]

    def outcomes_of_file(self, specialist: str, path: Path, most: int) -> list[Mapping[str, Any]]:
        """Return the outcomes of a specialist's ended runs that began with a given file, newest first.

        most: number of the specialist's newest runs that are searched.
        """
        with self._snapshot() as connection:
            finished = (runs.c.specialist == column_text(specialist), runs.c.outcome.is_not(None))
            query = select(runs.c.frozen, runs.c.outcome).where(*finished).order_by(*NEWEST_FIRST).limit(most)
            newest = connection.execute(query).all()
        wanted = os.path.realpath(path)
        return [
            outcome(ended) or {}
            for frozen, ended in newest
            if os.path.realpath(str(json.loads(frozen).get("file", ""))) == wanted
        ]

    def statuses(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the statuses of those runs that are stored; `running` for all without an outcome."""
        with self._snapshot() as connection:
            return dict(map(tuple, fetched(connection, select(runs.c.run_id, runs.c.status), runs.c.run_id, ids)))

    def steps(self, ids: Sequence[str]) -> dict[str, RunSteps]:
        """Return the requests and calls of those runs that are stored."""
        of_run = (runs.c.run_id, runs.c.specialist, runs.c.model, runs.c.status, runs.c.started_at, runs.c.ended_at)
        with self._snapshot() as connection:
            requests, made = defaultdict[str, list[Received]](list), defaultdict[str, list[Returned]](list)
            for row in fetched(connection, _ORDERED["turns"], turns.c.run_id, ids):
                requests[row.run_id].append(parsed(Received, row.body))
            for row in fetched(connection, _ORDERED["calls"], calls.c.run_id, ids):
                made[row.run_id].append(parsed(Returned, row.body))
            return {
                row.run_id: RunSteps(
                    **row._asdict(), requests=tuple(requests[row.run_id]), calls=tuple(made[row.run_id])
                )
                for row in fetched(connection, select(*of_run), runs.c.run_id, ids)
            }

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
        try:
            delete_runs(self.url, ids)
        except StoreUnusable as error:
            path = file_of(self.url)
            # A deletion needs disk space for the WAL.
            if path is None or "disk is full" not in str(error):
                raise
            if not _remove(path, self.url, set(ids)):
                raise StoreUnusable(f"{error}; {NEEDS_SPACE}") from None
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

    def _matching(self, connection: Connection, selection: Selection, query: Select[Any]) -> list[ListedRun]:
        """Return the runs of a query that also match the status, which for some depends on the owner's lock."""
        is_dead = cache(self._is_dead)
        found = []
        for row in connection.execute(query).all():
            run = ListedRun(**_listed(row._asdict(), is_dead))
            found += [run] if selection.status in {None, run.status} else []
        return with_sources(connection, found)

    def _with_children(
        self, connection: Connection, selection: Selection, found: Sequence[ListedRun]
    ) -> list[ListedRun]:
        """Return runs with those of their descendants that are selected, newest first."""
        known = {one.run_id: one for one in found}
        newest = list(known)
        while newest:
            below: dict[str, ListedRun] = {}
            for query in selection.children(newest):
                below |= {one.run_id: one for one in self._matching(connection, selection, query)}
            newest = [run_id for run_id in below if run_id not in known]
            known |= below
        return newest_first(known.values())

    def _not_found(self, run_id: str) -> RunNotFound:
        with self._snapshot() as connection:
            newest = connection.execute(select(runs.c.run_id).order_by(*NEWEST_FIRST).limit(1)).scalar()
        if newest is None:
            return RunNotFound(f"{shown(self.url)} contains no runs yet")
        return RunNotFound(f"there is no run {run_id} in {shown(self.url)}; the newest is {newest}")


def _listed(row: Mapping[str, Any], is_dead: Callable[[str], bool]) -> dict[str, Any]:
    """Return the fields of `ListedRun`; a run without an outcome is interrupted if its process has died."""
    fields = {column.name: row[column.name] for column in LISTED}
    return fields | ({"status": INTERRUPTED} if row["status"] == RUNNING and is_dead(row["owner"]) else {})


def delete_runs(url: str, ids: Sequence[str], batch_ids: Sequence[str] = ()) -> None:
    """Delete runs and their descendants, and batches with their items and runs, all or none.

    Raises UsageError if one of the runs is still running, StoreUnusable if the store cannot be written.
    """
    engine = open_engine(url)
    try:
        with readable_errors(url), engine.begin() as connection:
            begun = select(items.c.run_id).join(runs, runs.c.run_id == items.c.run_id)
            of_batches = (row.run_id for row in fetched(connection, begun, items.c.batch_id, batch_ids))
            ids = with_descendants(connection, [*ids, *of_batches])
            _require_finished(connection, url, ids)
            affected = {row.batch_id for row in fetched(connection, select(items.c.batch_id), items.c.run_id, ids)}
            _delete_rows(connection, "run_id", ids)
            # Batches without items, or without runs and not in progress.
            has_items = exists().where(items.c.batch_id == batches.c.batch_id)
            has_runs = exists().where(items.c.batch_id == batches.c.batch_id, runs.c.run_id == items.c.run_id)
            at_work = batches.c.state.in_([OPEN, PAUSED])
            empty = select(batches.c.batch_id).where(~has_items | (~at_work & ~has_runs))
            empty_ids = [row.batch_id for row in fetched(connection, empty, batches.c.batch_id, [*affected])]
            _delete_rows(connection, "batch_id", [*batch_ids, *empty_ids])
        if file_of(url):
            # Fails while other processes use the file; SQLite then reuses the space instead of returning it.
            with suppress(DBAPIError), closing(engine.raw_connection()) as raw, closing(raw.cursor()) as cursor:
                # A script runs each statement to completion; `execute` would free only one page.
                cursor.executescript("pragma incremental_vacuum; pragma wal_checkpoint(truncate)")
    finally:
        engine.dispose()


def _delete_rows(connection: Connection, column: str, values: Sequence[str]) -> None:
    """Delete the rows of all tables that have one of these values in a column."""
    for table in metadata.tables.values():
        if values and column in table.c:
            one_value = delete(table).where(table.c[column] == bindparam("deleted"))
            connection.execute(one_value, [{"deleted": one} for one in values])


def _remove(path: Path, url: str, ids: Collection[str]) -> bool:
    """Remove the file of a store if all its runs are selected for deletion, which needs no disk space.

    Return False if it contains other runs, or if another process uses it.
    """
    path = path.resolve()
    # The connection stays open until the files are removed, so that no process writes to an unlinked file.
    with suppress(sqlite3.Error), closing(connect(path, ALONE)) as alone:
        found = alone.execute("select run_id, status, owner from runs").fetchall()
        if any(run_id not in ids or (status == RUNNING and is_alive(url, owner)) for run_id, status, owner in found):
            return False
        # The database first: a WAL without its database has no effect.
        for suffix in ("", "-wal", "-shm"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
        return True
    return False


def _require_finished(connection: Connection, url: str, ids: Sequence[str]) -> None:
    unfinished = select(runs.c.run_id, runs.c.owner).where(runs.c.status == RUNNING).with_for_update()
    found = [*fetched(connection, unfinished, runs.c.run_id, ids)]
    for attempt in range(2 if found and file_of(url) is None else 1):
        time.sleep(attempt * GRACE)
        for run_id, owner in found:
            if is_alive(url, owner):
                running = f"{run_id} is still running: {describe(url, owner)}"
                raise UsageError(f"{running}; stop it first; nothing was deleted")
