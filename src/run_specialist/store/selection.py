"""Select stored runs: filters, ids, descendants, forks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Connection, FromClause, Select, and_, exists, func, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from run_specialist.errors import RunNotFound
from run_specialist.record.journal import Received, RunSnapshot
from run_specialist.record.outcome import Child, merged_changes
from run_specialist.store.rows import column_text, file_change, folded, outcome, parsed, restored
from run_specialist.store.schema import RUNNING
from run_specialist.store.stored import MARK, ListedRun
from run_specialist.store.tables import events, items, runs, search, turns

INTERRUPTED = "interrupted"
"""Status of a run without an outcome whose process has died."""
UNENDED = frozenset({RUNNING, INTERRUPTED})
"""Statuses that are stored as `running`; the owner's lock distinguishes them."""
LISTED = tuple(runs.c[one.name] for one in fields(ListedRun) if one.name in runs.c)
"""Columns of a listing."""
NEWEST_FIRST = (runs.c.started_at.desc(), runs.c.run_id.desc())


class _Contains(GenericFunction[bool]):
    """Tests whether a column of bytes contains other bytes; unlike with LIKE, no byte has a special meaning."""

    type = Boolean()
    inherit_cache = True


@compiles(_Contains, "sqlite")
def _instr(element: Any, compiler: Any, **options: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"instr({compiler.process(element.clauses, **options)}) > 0"


@compiles(_Contains, "postgresql")
def _position(element: Any, compiler: Any, **options: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    column, part = (compiler.process(clause, **options) for clause in element.clauses)
    return f"position({part} in {column}) > 0"


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters of a listing; a run must match all of them."""

    ids: Sequence[str] = ()
    """Ids or id prefixes."""
    specialist: str | None = None
    status: str | None = None
    before: float | None = None
    """Upper bound of the end time, or of the start time of a run that has not ended [seconds since 1970]."""
    project: str | None = None
    """Path of the project; None = all projects, and runs whose project is unknown."""
    words: str = ""
    """Words that occur in the questions or the answer, without case."""
    batch: str | None = None
    """Full id of a batch; selects its runs without their children."""
    without_batches: bool = False
    """Omit the runs of batches, and all their descendants."""

    def __post_init__(self) -> None:
        """Raise RunNotFound for an empty id, which is a prefix of every id."""
        if not all(prefix.strip() for prefix in self.ids):
            raise RunNotFound("the run id is empty; use an id, the start of one, or `last`")

    def flat(self, limit: int | None = None) -> Select[Any]:
        """Return the query for the selected runs, newest first."""
        return select(*LISTED, runs.c.owner).order_by(*NEWEST_FIRST).where(*self._conditions(runs)).limit(limit)

    def roots(self, limit: int | None = None) -> Select[Any]:
        """Return the query for the selected runs whose parent is not selected, newest first."""
        parent = runs.alias("parent")
        selected = select(parent.c.run_id).where(parent.c.run_id == runs.c.parent_id, *self._conditions(parent))
        return self.flat(limit).where(or_(runs.c.parent_id.is_(None), ~exists(selected)))

    def children(self, ids: Sequence[str]) -> list[Select[Any]]:
        """Return the queries for the selected children of some runs."""
        return [self.flat().where(runs.c.parent_id.in_(part)) for part in portions(ids)]

    def active_since(self, time: float) -> Select[Any]:
        """Return the query for the selected runs that have not ended, or that began or ended after a given time.

        time: [seconds since 1970].
        """
        return self.flat().where(or_(runs.c.status == RUNNING, runs.c.ended_at >= time, runs.c.started_at >= time))

    def count_left_out(self) -> Select[Any]:
        """Return the query for the number of runs that `without_batches` omits, without their descendants."""
        chosen = replace(self, without_batches=False).flat().subquery()
        return select(func.count()).select_from(chosen).where(_in_batch(chosen))

    def _conditions(self, table: FromClause) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self.ids:
            prefixes = map(column_text, self.ids)
            found.append(or_(*(table.c.run_id.startswith(prefix, autoescape=True) for prefix in prefixes)))
        if self.specialist is not None:
            found.append(table.c.specialist == column_text(self.specialist))
        if self.project is not None:
            found.append(table.c.project == column_text(self.project))
        if self.before is not None:
            found.append(func.coalesce(table.c.ended_at, table.c.started_at) < self.before)
        if self.status is not None:
            stored = sorted(UNENDED) if self.status in UNENDED else [column_text(self.status)]
            found.append(table.c.status.in_(stored))
        if self.words.strip():
            # Every word must be in a question or in the answer.
            parts = map(folded, self.words.split())
            has_word = (or_(_Contains(search.c.question, part), _Contains(search.c.answer, part)) for part in parts)
            found.append(table.c.run_id.in_(select(search.c.run_id).where(and_(*has_word))))
        if self.batch is not None:
            members = select(items.c.run_id).where(items.c.batch_id == column_text(self.batch))
            found.append(table.c.run_id.in_(members))
        if self.without_batches:
            found += [~_in_batch(table), table.c.run_id.not_in(_below_batches())]
        return found


def _in_batch(table: FromClause) -> ColumnElement[bool]:
    return exists().where(items.c.run_id == table.c.run_id)


@cache
def _below_batches() -> Select[Any]:
    """Return the query for the ids of all descendants of batch runs.

    It is the same object each time, because a statement may contain it twice.
    """
    child = runs.alias("child")
    below = (
        select(child.c.run_id)
        .join(items, items.c.run_id == child.c.parent_id)
        .where(child.c.parent_id.is_not(None))
        .cte("below", recursive=True)
    )
    deeper = runs.alias("deeper")
    below = below.union(select(deeper.c.run_id).join(below, below.c.run_id == deeper.c.parent_id))
    return select(below.c.run_id)


def with_sources(connection: Connection, found: Sequence[ListedRun]) -> list[ListedRun]:
    """Return runs, with the source of each fork."""
    ids = [one.run_id for one in found if one.run_id.endswith(MARK)]
    rows = fetched(connection, select(runs.c.run_id, runs.c.frozen), runs.c.run_id, ids)
    sources = {run_id: json.loads(frozen).get("fork") for run_id, frozen in rows}
    return [
        replace(one, forked_from=source["run_id"], forked_at=source["at"])
        if (source := sources.get(one.run_id))
        else one
        for one in found
    ]


PORTION = 1_000
"""Maximum number of ids per statement."""


def portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in portions small enough for one statement."""
    return (ids[at : at + PORTION] for at in range(0, len(ids), PORTION))


def fetched(
    connection: Connection, query: Select[Any], column: ColumnElement[str], ids: Sequence[str]
) -> Iterator[Any]:
    """Yield the rows of a query with any of these values in a column; only those of a portion are in order."""
    for part in portions(ids):
        yield from connection.execute(query.where(column.in_(part))).all()


def children(connection: Connection, run_id: str) -> tuple[Child, ...]:
    """Return the children of a run, in the order of their start."""
    query = select(runs).where(runs.c.parent_id == run_id).order_by(runs.c.started_at, runs.c.run_id)
    return tuple(_child(connection, row._asdict()) for row in connection.execute(query).all())


def with_descendants(connection: Connection, ids: Sequence[str]) -> list[str]:
    """Return the ids of these runs and of all their descendants."""
    found = dict.fromkeys(ids)
    newest = list(found)
    while newest:
        below = [row.run_id for row in fetched(connection, select(runs.c.run_id), runs.c.parent_id, newest)]
        newest = [run_id for run_id in below if run_id not in found]
        found |= dict.fromkeys(newest)
    return list(found)


def _child(connection: Connection, run: Mapping[str, Any]) -> Child:
    final = outcome(run["outcome"])
    # The outcome of a run that was resumed and is running again is outdated.
    if final is not None and run["status"] != RUNNING:
        of_child = {name: final[name] for name in Child.__dataclass_fields__}
        return restored(Child, {**of_child, "tool_calls": final["tool_calls"]["used"]})
    snapshot = RunSnapshot({}) if run["standing"] is None else parsed(RunSnapshot, run["standing"])
    below = children(connection, run["run_id"])
    total = snapshot.total
    logged = select(events.c.body).where(events.c.run_id == run["run_id"]).order_by(events.c.number)
    bodies = [json.loads(body) for body in connection.execute(logged).scalars()]
    # Including the calls in progress when its process ended.
    begun = sum(body["event"] == "tool_call" and body["phase"] == "started" for body in bodies)
    used = snapshot.used.get("tool_calls", 0) + begun - snapshot.calls
    # And the replies that were received since the newest snapshot.
    newer = select(turns.c.body).where(turns.c.run_id == run["run_id"], turns.c.number > snapshot.turns)
    for body in connection.execute(newer).scalars():
        received = parsed(Received, body)
        total = total.plus(received.reply.usage, received.cost_usd)
    shared = json.loads(run["frozen"])["settings"]["share_budget"]
    for one in snapshot.missing_children(below):
        total = total.plus(one.usage, one.cost_usd)
        used += one.tool_calls if shared else 0
    changes = [*filter(None, map(file_change, bodies)), *(one for inner in below for one in inner.changes)]
    spent = (int(used), total.usage, total.cost_usd)
    return Child(run["run_id"], run["specialist"], "aborted", *spent, children=below, changes=merged_changes(changes))


# Maximum number of matching ids in an error message.
_MAX_LISTED_IDS = 5


def ambiguous(what: str, beginning: str, ids: Sequence[str]) -> str:
    """Return the error for a prefix of several ids.

    what: `run` or `batch`.
    """
    listed = ", ".join(ids[:_MAX_LISTED_IDS])
    more = f" and {len(ids) - _MAX_LISTED_IDS} more" if len(ids) > _MAX_LISTED_IDS else ""
    return f"{len(ids)} {what} ids start with {beginning}: {listed}{more}; use more of the id"
