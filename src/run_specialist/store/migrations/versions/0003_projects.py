"""Add project, duration and file version to each run, and make questions and answers searchable."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from alembic import op
from sqlalchemy import Boolean, Column, Float, LargeBinary, String, bindparam, column, insert, select, table, update

from run_specialist.specialist.project import project_path
from run_specialist.store.as_text import column_text
from run_specialist.store.folding import folded
from run_specialist.store.packing import unpack

revision = "0003"
down_revision = "0002"

PORTION = 200
"""Number of runs in memory at the same time."""
_RUNS = table("runs", *map(column, ("run_id", "question", "frozen", "outcome", "project", "digest", "duration_s")))
_SEARCH = table("search", column("run_id"), column("question"), column("answer"))


def upgrade() -> None:
    """Add the columns and the table, and fill them from what each run has stored."""
    for name, kind in (("project", String), ("digest", String), ("limits_changed", Boolean), ("duration_s", Float)):
        op.add_column("runs", Column(name, kind))
    op.create_index("runs_by_project", "runs", ["project", "started_at"])
    op.create_table(
        "search",
        Column("run_id", String, primary_key=True),
        Column("question", LargeBinary, nullable=False),
        Column("answer", LargeBinary, nullable=False),
    )
    connection = op.get_bind()
    ids = connection.execute(select(_RUNS.c.run_id)).scalars().all()
    for at in range(0, len(ids), PORTION):
        chosen = select(_RUNS).where(_RUNS.c.run_id.in_(ids[at : at + PORTION]))
        _fill([row._asdict() for row in connection.execute(chosen).all()])


def _fill(rows: Iterable[Mapping[str, Any]]) -> None:
    changes, texts = [], []
    for row in rows:
        frozen, outcome = _values(row["frozen"]), _values(row["outcome"])
        seconds, digest = outcome.get("duration_s"), frozen.get("digest")
        changes.append(
            {
                "of_run": row["run_id"],
                "project": _project(frozen.get("root")),
                "digest": column_text(digest) if isinstance(digest, str) else None,
                "duration_s": float(seconds) if isinstance(seconds, (int, float)) else None,
            }
        )
        question, answer = folded(_text(row["question"])), folded(str(outcome.get("answer") or ""))
        texts.append({"run_id": row["run_id"], "question": question, "answer": answer})
    changed = update(_RUNS).where(_RUNS.c.run_id == bindparam("of_run"))
    names = ("project", "digest", "duration_s")
    op.get_bind().execute(changed.values({name: bindparam(name) for name in names}), changes)
    op.get_bind().execute(insert(_SEARCH), texts)


def _project(root: object) -> str | None:
    with suppress(OSError, ValueError):
        return column_text(project_path(Path(root))) if isinstance(root, str) and root else None
    return None


def _values(packed: bytes | None) -> Mapping[str, Any]:
    """Return the object stored in a column; empty if there is none, or if it cannot be read."""
    with suppress(ValueError):
        found = json.loads(_text(packed))
        if isinstance(found, dict):
            return found
    return {}


def _text(packed: bytes | None) -> str:
    """Return the text stored in a column; empty if it cannot be read."""
    with suppress(Exception):
        return unpack(bytes(packed or b"\0"))
    return ""
