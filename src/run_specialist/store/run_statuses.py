"""Look up the statuses of many runs by their ids."""

from collections.abc import Sequence

from sqlalchemy import select

from run_specialist.store.descendants import portions
from run_specialist.store.failures import readable_errors
from run_specialist.store.opening import open_engine
from run_specialist.store.tables import runs


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
