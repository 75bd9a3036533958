"""Read a store: list, find and load runs, and the finished runs of a specialist; delete runs."""

import difflib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, func, or_, select, text

from run_specialist.errors import RunNotFound, StoreUnusable
from run_specialist.store.as_text import column_text
from run_specialist.store.deleting import delete_runs
from run_specialist.store.descendants import children
from run_specialist.store.failures import readable_errors
from run_specialist.store.from_rows import outcome, stored_run
from run_specialist.store.identity import NAMESPACE
from run_specialist.store.location import file_of, shown
from run_specialist.store.opening import open_engine
from run_specialist.store.owners import is_alive
from run_specialist.store.stored import Listed, PastRun, StoredRun
from run_specialist.store.tables import calls, events, messages, metadata, outputs, runs, turns
from run_specialist.store.to_rows import RUNNING

LAST = "last"
"""Alias for the newest run that has no parent."""
INTERRUPTED = "interrupted"
"""Status of a run without an outcome whose process has died."""
MAX_LISTED_IDS = 5
"""How many matching ids an error message lists."""
MAX_COMPARED_IDS = 1_000
"""How many ids are searched for a similar one."""

_LISTED = (
    runs.c.run_id,
    runs.c.parent_id,
    runs.c.specialist,
    runs.c.model,
    runs.c.question,
    runs.c.status,
    runs.c.started_at,
    runs.c.ended_at,
    runs.c.tool_calls,
    runs.c.cost_usd,
)
_TABLES = metadata.tables
_PARTS = {
    "turns": select(turns).order_by(turns.c.number),
    "calls": select(calls, outputs.c.body)
    .join(outputs, (outputs.c.run_id == calls.c.run_id) & (outputs.c.number == calls.c.number))
    .order_by(calls.c.number),
    "messages": select(messages).order_by(messages.c.part, messages.c.place),
    "events": select(events).order_by(events.c.number),
}
"""Queries for the related rows of a run, by table name."""
_NEWEST_FIRST = (runs.c.started_at.desc(), runs.c.run_id.desc())


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
    ) -> list[Listed]:
        """Return runs that match all filters, newest first.

        ids: ids or id prefixes.
        before: upper bound of the end time, or of the start time of a run that has not ended [seconds since 1970].
        limit: maximum number of runs.
        Raises RunNotFound for an empty id, which is a prefix of every id.
        """
        if not all(prefix.strip() for prefix in ids):
            raise RunNotFound("the run id is empty; use an id, the start of one, or `last`")
        query = select(*_LISTED, runs.c.owner).order_by(*_NEWEST_FIRST)
        if ids:
            query = query.where(
                or_(*(runs.c.run_id.startswith(column_text(prefix), autoescape=True) for prefix in ids))
            )
        if specialist is not None:
            query = query.where(runs.c.specialist == column_text(specialist))
        if before is not None:
            query = query.where(func.coalesce(runs.c.ended_at, runs.c.started_at) < before)
        if status in {RUNNING, INTERRUPTED}:
            # The store has `running` for both; the owner's lock decides.
            query = query.where(runs.c.status.in_([RUNNING, INTERRUPTED]))
        elif status is not None:
            query = query.where(runs.c.status == column_text(status)).limit(limit)
        else:
            query = query.limit(limit)
        with self._snapshot() as connection:
            rows = connection.execute(query).all()
        is_dead = cache(self._is_dead)
        listed = [Listed(**_listed(row._asdict(), is_dead)) for row in rows]
        return [run for run in listed if status in {None, run.status}][:limit]

    def find(self, run_id: str) -> Listed:
        """Return the run with this id or unique id prefix; `last` is the newest run that has no parent.

        Raises RunNotFound, which lists matching or similar ids.
        """
        if run_id == LAST:
            newest = select(runs.c.run_id).where(runs.c.parent_id.is_(None)).order_by(*_NEWEST_FIRST).limit(1)
            with self._snapshot() as connection:
                run_id = connection.execute(newest).scalar() or run_id
        matches = self.runs(ids=[run_id])
        for match in matches:
            if match.run_id == run_id or len(matches) == 1:
                return match
        raise RunNotFound(self._ambiguous(run_id, matches) if matches else self._not_found(run_id))

    def load(self, run_id: str) -> StoredRun:
        """Return a run with all its stored data.

        run_id: as in `find`.
        """
        run_id = self.find(run_id).run_id
        try:
            with self._snapshot() as connection:
                found = connection.execute(select(runs).where(runs.c.run_id == run_id)).one_or_none()
                rows = {
                    name: [row._asdict() for row in connection.execute(query.where(_TABLES[name].c.run_id == run_id))]
                    for name, query in _PARTS.items()
                }
                child_runs = children(connection, run_id)
            run = found._asdict() if found else None
            if run:
                return stored_run(_listed(run, self._is_dead), run, rows, child_runs)
        except (ValueError, TypeError, LookupError) as error:
            raise StoreUnusable(f"{shown(self.url)}: the data of {run_id} cannot be read: {error!r}") from None
        raise RunNotFound(self._not_found(run_id))

    def past(self, specialist: str) -> list[PastRun]:
        """Return the runs of a specialist that have an outcome, newest first."""
        finished = (runs.c.specialist == column_text(specialist), runs.c.outcome.is_not(None))
        counted = (
            select(calls.c.run_id, func.count(), func.count().filter(calls.c.repeated))
            .join(runs, runs.c.run_id == calls.c.run_id)
            .where(*finished)
            .group_by(calls.c.run_id)
        )
        ended = select(runs.c.run_id, runs.c.started_at, runs.c.outcome).where(*finished).order_by(*_NEWEST_FIRST)
        with self._snapshot() as connection:
            counts = {run_id: (made, repeated) for run_id, made, repeated in connection.execute(counted)}
            return [
                PastRun(run_id, started_at, outcome(body) or {}, *counts.get(run_id, (0, 0)))
                for run_id, started_at, body in connection.execute(ended).all()
            ]

    def outcomes_of_file(self, specialist: str, path: Path, most: int) -> list[Mapping[str, Any]]:
        """Return the outcomes of ended runs of a specialist that began from one file, newest first.

        most: how many of the newest runs of the specialist are searched.
        """
        finished = (runs.c.specialist == column_text(specialist), runs.c.outcome.is_not(None))
        query = select(runs.c.frozen, runs.c.outcome).where(*finished).order_by(*_NEWEST_FIRST).limit(most)
        with self._snapshot() as connection:
            rows = connection.execute(query).all()
        wanted = os.path.realpath(path)
        return [
            outcome(ended) or {}
            for frozen, ended in rows
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

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        """Give a connection in a transaction that sees one snapshot of the store."""
        with readable_errors(self.url), self._engine.begin() as connection:
            yield connection

    def _ambiguous(self, run_id: str, matches: Sequence[Listed]) -> str:
        more = f" and {len(matches) - MAX_LISTED_IDS} more" if len(matches) > MAX_LISTED_IDS else ""
        listed = ", ".join(match.run_id for match in matches[:MAX_LISTED_IDS])
        return f"{len(matches)} run ids start with {run_id}: {listed}{more}; use more of the id"

    def _not_found(self, run_id: str) -> str:
        with self._snapshot() as connection:
            newest = select(runs.c.run_id).order_by(*_NEWEST_FIRST).limit(MAX_COMPARED_IDS)
            ids = connection.execute(newest).scalars().all()
        if not ids:
            return f"{shown(self.url)} contains no runs yet"
        similar = difflib.get_close_matches(run_id, ids)
        hint = f"did you mean {' or '.join(similar)}?" if similar else f"the newest is {ids[0]}"
        return f"there is no run {run_id} in {shown(self.url)}; {hint}"


def _listed(row: Mapping[str, Any], is_dead: Callable[[str], bool]) -> dict[str, Any]:
    """Return the fields of `Listed`; a run without an outcome is interrupted if its process has died."""
    fields = {column.name: row[column.name] for column in _LISTED}
    return fields | ({"status": INTERRUPTED} if row["status"] == RUNNING and is_dead(row["owner"]) else {})
