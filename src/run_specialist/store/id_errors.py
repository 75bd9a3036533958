"""Errors for an id that matches several runs or batches, or none."""

import difflib
from collections.abc import Sequence

from sqlalchemy import Connection, select

from run_specialist.store.selection import NEWEST_FIRST
from run_specialist.store.tables import runs

MAX_LISTED_IDS = 5
"""Maximum number of matching ids in an error message."""
MAX_COMPARED_IDS = 1_000
"""Maximum number of ids that are searched for a similar one."""


def ambiguous(what: str, beginning: str, ids: Sequence[str]) -> str:
    """Return the error for a prefix of several ids.

    what: `run` or `batch`.
    """
    listed = ", ".join(ids[:MAX_LISTED_IDS])
    more = f" and {len(ids) - MAX_LISTED_IDS} more" if len(ids) > MAX_LISTED_IDS else ""
    return f"{len(ids)} {what} ids start with {beginning}: {listed}{more}; use more of the id"


def no_such_run(connection: Connection, run_id: str, store: str) -> str:
    """Return the error for an unknown run id, with similar ids or the newest one.

    store: location of the store, in the form for people.
    """
    newest = select(runs.c.run_id).order_by(*NEWEST_FIRST).limit(MAX_COMPARED_IDS)
    ids = connection.execute(newest).scalars().all()
    if not ids:
        return f"{store} contains no runs yet"
    similar = difflib.get_close_matches(run_id, ids)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"the newest is {ids[0]}"
    return f"there is no run {run_id} in {store}; {hint}"
