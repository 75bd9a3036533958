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

from sqlalchemy import Connection, Select, Table, bindparam, delete, exists, func, select, text
from sqlalchemy.exc import DBAPIError

from run_specialist.errors import RunNotFound, StoreUnusable, UsageError
from run_specialist.record.journal import FileChanging
from run_specialist.record.messages import Usage
from run_specialist.store.location import NAMESPACE, file_of, shown
from run_specialist.store.owners import GRACE, describe, is_alive, may_reconnect
from run_specialist.store.rows import column_text, outcome, stored_run
from run_specialist.store.schema import OPEN, PAUSED, RUNNING
from run_specialist.store.selection import (
    INTERRUPTED,
    LISTED,
    NEWEST_FIRST,
    UNENDED,
    Selection,
    ambiguous,
    children,
    forks_of,
    no_such_run,
    portions,
    with_descendants,
    with_sources,
)
from run_specialist.store.sqlite import ALONE, connect, open_engine
from run_specialist.store.stored import ListedRun, PastRun, StoredRun, first_trees, newest_first
from run_specialist.store.tables import (
    batches,
    calls,
    changes,
    events,
    gates,
    items,
    messages,
    metadata,
    outputs,
    readable_errors,
    runs,
    turns,
)


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change that a run was about to make; whether it was made, only the file shows."""

    run_id: str
    root: str
    """The folder that its path is relative to."""
    change: FileChanging


def changes_of(connection: Connection, run_id: str) -> list[StoredChange]:
    """Return the changes of a run and of its descendants, oldest first."""
    ids = with_descendants(connection, [run_id])
    rows = [
        row
        for part in portions(ids)
        for row in connection.execute(
            select(changes, runs.c.frozen).join(runs, runs.c.run_id == changes.c.run_id).where(runs.c.run_id.in_(part))
        )
    ]
    return [
        StoredChange(
            row.run_id,
            str(json.loads(row.frozen).get("root", "")),
            FileChanging(
                change_id=row.change_id,
                path=row.path,
                before=row.old_digest,
                after=row.new_digest or None,
                content=row.old_content,
                temporary=row.temporary_name,
                folders=row.folders,
                at=row.at,
            ),
        )
        for row in sorted(rows, key=lambda row: (row.at, row.change_id))
    ]


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
            finished = (runs.c.specialist == column_text(specialist), runs.c.outcome.is_not(None))
            query = select(runs.c.frozen, runs.c.outcome).where(*finished).order_by(*NEWEST_FIRST).limit(most)
            newest = connection.execute(query).all()
        wanted = os.path.realpath(path)
        return [
            outcome(ended) or {}
            for frozen, ended in newest
            if os.path.realpath(str(json.loads(frozen).get("file", ""))) == wanted
        ]

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


NEEDS_SPACE = (
    "free disk space, or delete all runs with --all --all-projects, which needs none if no other process uses the store"
)


def delete_runs(url: str, ids: Sequence[str]) -> None:
    """Delete runs and their descendants, all or none; raises the same errors as `Store.delete`."""
    try:
        _delete(url, ids)
    except StoreUnusable as error:
        path = file_of(url)
        # A deletion needs disk space for the WAL.
        if path is None or "disk is full" not in str(error):
            raise
        if not _remove(path, url, set(ids)):
            raise StoreUnusable(f"{error}; {NEEDS_SPACE}") from None


def delete_whole_batches(url: str, batch_ids: Sequence[str]) -> None:
    """Delete batches with their items and runs, all or none; raises the same errors as `Store.delete`."""
    _delete(url, (), batch_ids)


def _delete(url: str, ids: Sequence[str], of_batches: Sequence[str] = ()) -> None:
    engine = open_engine(url)
    try:
        with readable_errors(url), engine.begin() as connection:
            ids = with_descendants(connection, [*ids, *runs_of(connection, of_batches)])
            _require_finished(connection, url, ids)
            touched = batches_of(connection, ids)
            deleted = [{"deleted": run_id} for run_id in ids]
            for table in metadata.tables.values() if deleted else ():
                if "run_id" in table.c:
                    connection.execute(delete(table).where(table.c.run_id == bindparam("deleted")), deleted)
            delete_batches(connection, of_batches)
            delete_batches(connection, without_runs(connection, touched))
        if file_of(url):
            # Fails while other processes use the file; SQLite then reuses the space instead of returning it.
            with suppress(DBAPIError), closing(engine.raw_connection()) as raw, closing(raw.cursor()) as cursor:
                # A script runs each statement to completion; `execute` would free only one page.
                cursor.executescript("pragma incremental_vacuum; pragma wal_checkpoint(truncate)")
    finally:
        engine.dispose()


def _remove(path: Path, url: str, ids: Collection[str]) -> bool:
    """Remove the file of a store if all its runs are selected for deletion, which needs no disk space.

    Return False if it contains other runs, or if another process uses it.
    """
    path = path.resolve()
    try:
        # The connection stays open until the files are removed, so that no process writes to an unlinked file.
        with closing(connect(path, ALONE)) as alone:
            found = alone.execute("select run_id, status, owner from runs").fetchall()
            if any(
                run_id not in ids or (status == RUNNING and is_alive(url, owner)) for run_id, status, owner in found
            ):
                return False
            # The database first: a WAL without its database has no effect.
            for suffix in ("", "-wal", "-shm"):
                path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
    except sqlite3.Error:
        return False
    return True


def _require_finished(connection: Connection, url: str, ids: Sequence[str]) -> None:
    unfinished = select(runs.c.run_id, runs.c.owner).where(runs.c.status == RUNNING)
    chosen = [unfinished.where(runs.c.run_id.in_(part)).with_for_update() for part in portions(ids)]
    found = [row for rows in chosen for row in connection.execute(rows).all()]
    for attempt in range(2 if found and may_reconnect(url) else 1):
        time.sleep(attempt * GRACE)
        for run_id, owner in found:
            if is_alive(url, owner):
                running = f"{run_id} is still running: {describe(url, owner)}"
                raise UsageError(f"{running}; stop it first; nothing was deleted")


def runs_of(connection: Connection, batch_ids: Sequence[str]) -> list[str]:
    """Return the ids of the stored runs of some batches, including earlier calls."""
    joined = select(items.c.run_id).join(runs, runs.c.run_id == items.c.run_id)
    chosen = (joined.where(items.c.batch_id.in_(part)) for part in portions(batch_ids))
    return [run_id for query in chosen for run_id in connection.execute(query).scalars()]


def batches_of(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the ids of the batches that contain any of these runs."""
    chosen = (select(items.c.batch_id).where(items.c.run_id.in_(part)).distinct() for part in portions(run_ids))
    return list(dict.fromkeys(batch_id for query in chosen for batch_id in connection.execute(query).scalars()))


def without_runs(connection: Connection, batch_ids: Sequence[str]) -> list[str]:
    """Return those batches that have no items, or have no runs and are not in progress."""
    found: list[str] = []
    has_items = exists().where(items.c.batch_id == batches.c.batch_id)
    has_runs = exists().where(items.c.batch_id == batches.c.batch_id, runs.c.run_id == items.c.run_id)
    at_work = batches.c.state.in_([OPEN, PAUSED])
    for part in portions(batch_ids):
        empty = select(batches.c.batch_id).where(batches.c.batch_id.in_(part), ~has_items | (~at_work & ~has_runs))
        found += connection.execute(empty).scalars().all()
    return found


def delete_batches(connection: Connection, batch_ids: Sequence[str]) -> None:
    """Delete batches with their items and gates, but not their runs."""
    for part in portions(batch_ids):
        for table in (items, gates, batches):
            connection.execute(delete(table).where(table.c.batch_id.in_(part)))


def past_runs(connection: Connection, specialist: str, project: str | None) -> list[PastRun]:
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
    counts = {run_id: (made, repeated) for run_id, made, repeated in connection.execute(counted)}
    return [
        PastRun(run_id, started_at, outcome(body) or {}, *counts.get(run_id, (0, 0)), *version)
        for run_id, started_at, body, *version in connection.execute(ended).all()
    ]


_TABLES = metadata.tables
_QUERIES = {
    "turns": select(turns).order_by(turns.c.number),
    "calls": select(calls, outputs.c.body)
    .join(outputs, (outputs.c.run_id == calls.c.run_id) & (outputs.c.number == calls.c.number))
    .order_by(calls.c.number),
    "messages": select(messages).order_by(messages.c.part, messages.c.place),
    "events": select(events).order_by(events.c.number),
}
"""By table name."""


def run_rows(connection: Connection, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return the ordered rows of a run by table name; those of `calls` include the `body` of their output."""
    return {
        name: [row._asdict() for row in connection.execute(query.where(_TABLES[name].c.run_id == run_id))]
        for name, query in _QUERIES.items()
    }


def run_statuses(url: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the statuses of those runs that are stored; `running` for all without an outcome.

    Raises StoreUnusable, also if the store does not exist.
    """
    engine = open_engine(url, write=False)
    try:
        with readable_errors(url), engine.begin() as connection:
            found: dict[str, str] = {}
            for part in portions(ids):
                query = select(runs.c.run_id, runs.c.status).where(runs.c.run_id.in_(part))
                found |= {str(row.run_id): str(row.status) for row in connection.execute(query)}
            return found
    finally:
        engine.dispose()


_RUN = (runs.c.run_id, runs.c.specialist, runs.c.model, runs.c.status, runs.c.started_at, runs.c.ended_at)
_USAGE = (
    turns.c.input_tokens,
    turns.c.cache_read_input_tokens,
    turns.c.cache_creation_input_tokens,
    turns.c.output_tokens,
)
_REQUEST = (turns.c.run_id, turns.c.number, turns.c.at, turns.c.seconds, *_USAGE)
_CALL = (
    calls.c.run_id,
    calls.c.number,
    calls.c.at,
    calls.c.seconds,
    calls.c.call_id,
    calls.c.name,
    calls.c.is_error,
    calls.c.arguments,
)


@dataclass(frozen=True, slots=True)
class RequestStep:
    """One answered request."""

    number: int
    at: float
    """Time of the reply [seconds since 1970]."""
    seconds: float
    usage: Usage


@dataclass(frozen=True, slots=True)
class CallStep:
    """One executed tool call."""

    number: int
    at: float
    """Time of return [seconds since 1970]."""
    seconds: float
    call_id: str
    name: str
    is_error: bool
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The requests and calls of a run."""

    run_id: str
    specialist: str
    model: str
    status: str
    started_at: float
    """[seconds since 1970]"""
    ended_at: float | None
    """[seconds since 1970]"""
    requests: tuple[RequestStep, ...]
    calls: tuple[CallStep, ...]


def run_steps(url: str, ids: Sequence[str]) -> dict[str, RunSteps]:
    """Return the requests and calls of those runs that are stored; raises StoreUnusable, also without a store."""
    engine = open_engine(url, write=False)
    try:
        with readable_errors(url), engine.begin() as connection:
            found: dict[str, RunSteps] = {}

            def rows(table: Table, columns: Sequence[Any], part: Sequence[str]) -> dict[str, list[Any]]:
                by_run = defaultdict(list)
                query = select(*columns).where(table.c.run_id.in_(part)).order_by(table.c.run_id, table.c.number)
                for run_id, *values in connection.execute(query):
                    by_run[run_id].append(values)
                return by_run

            for part in portions(ids):
                requests, called = rows(turns, _REQUEST, part), rows(calls, _CALL, part)
                for run in connection.execute(select(*_RUN).where(runs.c.run_id.in_(part))):
                    found[run.run_id] = RunSteps(
                        *run,
                        tuple(
                            RequestStep(number, at, seconds, Usage(*usage))
                            for number, at, seconds, *usage in requests.get(run.run_id, ())
                        ),
                        tuple(
                            CallStep(*[*row, arguments and json.loads(arguments)])
                            for *row, arguments in called.get(run.run_id, ())
                        ),
                    )
            return found
    finally:
        engine.dispose()
