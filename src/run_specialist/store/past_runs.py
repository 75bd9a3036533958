"""The ended runs of a specialist, from which future runs are estimated."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from run_specialist.store.as_text import column_text
from run_specialist.store.from_rows import outcome
from run_specialist.store.selection import NEWEST_FIRST
from run_specialist.store.stored import PastRun
from run_specialist.store.tables import calls, runs


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


def newest_outcomes(connection: Connection, specialist: str, most: int) -> list[tuple[str, str]]:
    """Return the stored origin and outcome of a specialist's newest ended runs, as text, newest first."""
    finished = (runs.c.specialist == column_text(specialist), runs.c.outcome.is_not(None))
    query = select(runs.c.frozen, runs.c.outcome).where(*finished).order_by(*NEWEST_FIRST).limit(most)
    return [(frozen, ended) for frozen, ended in connection.execute(query).all()]


def outcomes_of_file(rows: Iterable[tuple[str, str]], path: Path) -> list[Mapping[str, Any]]:
    """Return the outcomes of the runs that began with a given file.

    rows: as `newest_outcomes` returns them.
    """
    wanted = os.path.realpath(path)
    return [
        outcome(ended) or {}
        for frozen, ended in rows
        if os.path.realpath(str(json.loads(frozen).get("file", ""))) == wanted
    ]
