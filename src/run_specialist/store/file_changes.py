"""The stored file changes of runs."""

import json
from dataclasses import dataclass

from sqlalchemy import Connection, select

from run_specialist.record.journal import FileChanging
from run_specialist.store.descendants import portions, with_descendants
from run_specialist.store.tables import changes, runs


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
