"""Select runs for a listing, as conditions and queries for either database."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import Boolean, ColumnElement, FromClause, Select, and_, exists, func, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from run_specialist.errors import RunNotFound
from run_specialist.store.as_text import column_text
from run_specialist.store.folding import folded
from run_specialist.store.tables import items, runs, search
from run_specialist.store.to_rows import RUNNING

INTERRUPTED = "interrupted"
"""Status of a run without an outcome whose process has died."""
UNENDED = frozenset({RUNNING, INTERRUPTED})
"""Statuses that are stored as `running`; the owner's lock distinguishes them."""
LISTED = (
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
    runs.c.project,
    runs.c.duration_s,
)
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
        return _listed().where(*self._conditions(runs)).limit(limit)

    def roots(self, limit: int | None = None) -> Select[Any]:
        """Return the query for the selected runs whose parent is not selected, newest first."""
        parent = runs.alias("parent")
        selected = select(parent.c.run_id).where(parent.c.run_id == runs.c.parent_id, *self._conditions(parent))
        return self.flat(limit).where(or_(runs.c.parent_id.is_(None), ~exists(selected)))

    def children(self, ids: Sequence[str]) -> Select[Any]:
        """Return the query for the selected children of some runs."""
        return self.flat().where(runs.c.parent_id.in_(ids))

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
            found.append(table.c.run_id.in_(_with_words(self.words.split())))
        if self.batch is not None:
            members = select(items.c.run_id).where(items.c.batch_id == column_text(self.batch))
            found.append(table.c.run_id.in_(members))
        if self.without_batches:
            found += [~_in_batch(table), table.c.run_id.not_in(_below_batches())]
        return found


def _listed() -> Select[Any]:
    return select(*LISTED, runs.c.owner).order_by(*NEWEST_FIRST)


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


def _with_words(words: Sequence[str]) -> Select[Any]:
    """Return the query for the ids of the runs that have every word in a question or in the answer."""
    parts = map(folded, words)
    return select(search.c.run_id).where(
        and_(*(or_(_Contains(search.c.question, part), _Contains(search.c.answer, part)) for part in parts))
    )
