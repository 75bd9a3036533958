"""Add the parent run to each run."""

from alembic import op
from sqlalchemy import Column, String

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the parent; older runs have none."""
    op.add_column("runs", Column("parent_id", String))
    op.create_index("ix_runs_parent_id", "runs", ["parent_id"])
