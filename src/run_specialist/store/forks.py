"""Find forks: which of some runs are forks, and which runs are forks of a given run."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from run_specialist.store.as_text import column_text
from run_specialist.store.descendants import portions
from run_specialist.store.fork_mark import MARK
from run_specialist.store.selection import NEWEST_FIRST
from run_specialist.store.stored import ListedRun
from run_specialist.store.tables import runs


def with_sources(connection: Connection, found: Sequence[ListedRun]) -> list[ListedRun]:
    """Return runs, with the source of each fork."""
    ids = [one.run_id for one in found if one.run_id.endswith(MARK)]
    queries = (select(runs.c.run_id, runs.c.frozen).where(runs.c.run_id.in_(part)) for part in portions(ids))
    frozen = {run_id: text for query in queries for run_id, text in connection.execute(query)}
    return [_with_source(one, json.loads(frozen[one.run_id])) if one.run_id in frozen else one for one in found]


def _with_source(run: ListedRun, frozen: Mapping[str, Any]) -> ListedRun:
    """Return a run with its source, if it is a fork.

    frozen: as in `Opened.frozen`.
    """
    source = frozen.get("fork")
    return replace(run, forked_from=source["run_id"], forked_at=source["at"]) if source else run


def forks_of(connection: Connection, run_id: str, since: float) -> list[str]:
    """Return the ids of the forks of a run, oldest first.

    since: start of that run [seconds since 1970].
    """
    later = (
        select(runs.c.run_id, runs.c.frozen)
        .where(runs.c.started_at >= since, runs.c.run_id.endswith(MARK))
        .order_by(*NEWEST_FIRST)
    )
    wanted = column_text(run_id)
    found: Iterable[Any] = connection.execute(later)
    return [fork for fork, frozen in found if (json.loads(frozen).get("fork") or {}).get("run_id") == wanted][::-1]
