"""A store opened for looking: what runs there are, one of them whole, the past of a specialist; and deleting runs."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

from sqlalchemy import Connection, func, or_, select, text

from run_specialist.errors import RunNotFound, StoreUnusable
from run_specialist.store.as_text import word
from run_specialist.store.deleting import delete_runs
from run_specialist.store.descendants import children
from run_specialist.store.failures import in_one_line
from run_specialist.store.from_rows import outcome, stored_run
from run_specialist.store.identity import NAMESPACE
from run_specialist.store.location import file_of, shown
from run_specialist.store.opening import open_engine
from run_specialist.store.owners import is_alive
from run_specialist.store.stored import Listed, PastRun, StoredRun
from run_specialist.store.tables import calls, events, messages, metadata, outputs, runs, turns
from run_specialist.store.to_rows import RUNNING

LAST = "last"
"""The word for the newest run that no other run has started."""
INTERRUPTED = "interrupted"
"""The status of a run without an outcome whose process has died."""
MOST_NAMED = 5
"""So many of the ids that fit are named."""
COMPARED = 1_000
"""So many ids are looked through for one that is near."""

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
"""All that belongs to a run beside its own row, by the table's name."""
_NEWEST_FIRST = (runs.c.started_at.desc(), runs.c.run_id.desc())


class Store:
    """A store that is looked at; only `delete` writes to it."""

    def __init__(self, url: str) -> None:
        """Open it; raises StoreUnusable, also where there is none yet."""
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
        """Return runs, the newest first.

        ids: of those that are wanted, or beginnings of ids.
        before: they ended before this, or began where they have no end [seconds since 1970].
        limit: how many at most.
        Raises RunNotFound for an id that is empty: every id would begin with it.
        """
        if not all(one.strip() for one in ids):
            raise RunNotFound("an empty id names no run; write one, the beginning of one, or `last`")
        wanted = select(*_LISTED, runs.c.owner).order_by(*_NEWEST_FIRST)
        if ids:
            wanted = wanted.where(or_(*(runs.c.run_id.startswith(word(one), autoescape=True) for one in ids)))
        if specialist is not None:
            wanted = wanted.where(runs.c.specialist == word(specialist))
        if before is not None:
            wanted = wanted.where(func.coalesce(runs.c.ended_at, runs.c.started_at) < before)
        if status in {RUNNING, INTERRUPTED}:
            # Which of the two it is does not stand in the store.
            wanted = wanted.where(runs.c.status.in_([RUNNING, INTERRUPTED]))
        elif status is not None:
            wanted = wanted.where(runs.c.status == word(status)).limit(limit)
        else:
            wanted = wanted.limit(limit)
        with self._reading() as connection:
            rows = connection.execute(wanted).all()
        is_over = cache(self._is_over)
        listed = [Listed(**_listed(row._asdict(), is_over)) for row in rows]
        return [one for one in listed if status in {None, one.status}][:limit]

    def find(self, run_id: str) -> Listed:
        """Return the run of an id, or of the beginning of one; `last` means the newest that no other has started.

        Raises RunNotFound, which names the ids that fit or are near.
        """
        if run_id == LAST:
            newest = select(runs.c.run_id).where(runs.c.parent_id.is_(None)).order_by(*_NEWEST_FIRST).limit(1)
            with self._reading() as connection:
                run_id = connection.execute(newest).scalar() or run_id
        fitting = self.runs(ids=[run_id])
        for one in fitting:
            if one.run_id == run_id or len(fitting) == 1:
                return one
        raise RunNotFound(self._several(run_id, fitting) if fitting else self._none(run_id))

    def load(self, run_id: str) -> StoredRun:
        """Return all that was kept of a run.

        run_id: as in `find`.
        """
        run_id = self.find(run_id).run_id
        try:
            with self._reading() as connection:
                found = connection.execute(select(runs).where(runs.c.run_id == run_id)).one_or_none()
                rows = {
                    name: [row._asdict() for row in connection.execute(each.where(_TABLES[name].c.run_id == run_id))]
                    for name, each in _PARTS.items()
                }
                asked = children(connection, run_id)
            run = found._asdict() if found else None
            if run:
                return stored_run(_listed(run, self._is_over), run, rows, asked)
        except (ValueError, TypeError, LookupError) as error:
            raise StoreUnusable(f"{shown(self.url)}: what is kept of {run_id} cannot be read: {error!r}") from None
        raise RunNotFound(self._none(run_id))

    def past(self, specialist: str) -> list[PastRun]:
        """Return the runs of a specialist that have an outcome, the newest first."""
        over = (runs.c.specialist == word(specialist), runs.c.outcome.is_not(None))
        counted = (
            select(calls.c.run_id, func.count(), func.count().filter(calls.c.repeated))
            .join(runs, runs.c.run_id == calls.c.run_id)
            .where(*over)
            .group_by(calls.c.run_id)
        )
        ended = select(runs.c.run_id, runs.c.started_at, runs.c.outcome).where(*over).order_by(*_NEWEST_FIRST)
        with self._reading() as connection:
            counts = {run_id: (made, repeated) for run_id, made, repeated in connection.execute(counted)}
            return [
                PastRun(run_id, started_at, outcome(told) or {}, *counts.get(run_id, (0, 0)))
                for run_id, started_at, told in connection.execute(ended).all()
            ]

    def delete(self, ids: Sequence[str]) -> int:
        """Delete runs with all that was kept of them, all or none; return by how much the store shrank [bytes].

        What was asked by a run goes with it.

        ids: whole ones; those that are not there are passed over.
        Raises UsageError where one of them is still worked on, and StoreUnusable where nothing can be written.
        """
        if not ids:
            return 0
        before = self.size
        # On a full disk nobody else may have the file open.
        self._engine.dispose()
        delete_runs(self.url, ids)
        return max(before - self.size, 0)

    @property
    def size(self) -> int:
        """What the store takes, with what SQLite has still to move into its file [bytes]."""
        if path := file_of(self.url):
            files = (path, path.with_name(f"{path.name}-wal"))
            return sum(file.stat().st_size for file in files if file.exists())
        tables = text(
            "select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c "
            "join pg_namespace n on n.oid = c.relnamespace where n.nspname = :namespace and c.relkind = 'r'"
        )
        with self._reading() as connection:
            return int(connection.execute(tables, {"namespace": NAMESPACE}).scalar_one())

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_over(self, owner: str) -> bool:
        return not is_alive(self.url, owner)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Give a connection that sees the store as it is now, whatever is written meanwhile."""
        with in_one_line(self.url), self._engine.begin() as connection:
            yield connection

    def _several(self, run_id: str, fitting: Sequence[Listed]) -> str:
        more = f" and {len(fitting) - MOST_NAMED} more" if len(fitting) > MOST_NAMED else ""
        named = ", ".join(one.run_id for one in fitting[:MOST_NAMED])
        return f"{len(fitting)} runs begin with {run_id}: {named}{more}; give more of the id"

    def _none(self, run_id: str) -> str:
        with self._reading() as connection:
            newest = select(runs.c.run_id).order_by(*_NEWEST_FIRST).limit(COMPARED)
            ids = connection.execute(newest).scalars().all()
        if not ids:
            return f"no run is kept in {shown(self.url)} yet"
        near = difflib.get_close_matches(run_id, ids)
        hint = f"did you mean {' or '.join(near)}?" if near else f"the newest is {ids[0]}"
        return f"no run {run_id} is kept in {shown(self.url)}; {hint}"


def _listed(row: Mapping[str, Any], is_over: Callable[[str], bool]) -> dict[str, Any]:
    """Return the fields of `Listed`; a run without an outcome is interrupted when its process is over."""
    fields = {column.name: row[column.name] for column in _LISTED}
    return fields | ({"status": INTERRUPTED} if row["status"] == RUNNING and is_over(row["owner"]) else {})
