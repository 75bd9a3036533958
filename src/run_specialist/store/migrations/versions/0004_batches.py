"""Add batches: one question for many items, each of which has a run."""

from alembic import op
from sqlalchemy import Column, Float, Integer, LargeBinary, String

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add both tables; the runs stored before belong to no batch."""
    op.create_table(
        "batches",
        Column("batch_id", String, primary_key=True),
        Column("specialist", String, nullable=False),
        Column("model", String),
        Column("project", String),
        Column("question", LargeBinary, nullable=False),
        Column("created_at", Float, nullable=False),
        Column("cost_limit", Float),
        Column("state", String, nullable=False),
        Column("reason", LargeBinary),
        Column("frozen", LargeBinary, nullable=False),
    )
    op.create_index("batches_by_project", "batches", ["project", "created_at"])
    op.create_table(
        "items",
        Column("run_id", String, primary_key=True),
        Column("batch_id", String, primary_key=True),
        Column("number", Integer),
        Column("state", String, nullable=False),
        Column("takeovers", Integer, nullable=False),
        Column("turns", Integer, nullable=False),
        Column("error", LargeBinary),
        Column("input", LargeBinary, nullable=False),
        Column("question", LargeBinary, nullable=False),
    )
    op.create_index("items_by_number", "items", ["batch_id", "number"])
