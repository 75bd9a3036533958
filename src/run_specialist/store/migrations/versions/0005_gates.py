"""Add the gates of fleet batches, and the amount that each item may spend of the cost limit."""

from alembic import op
from sqlalchemy import Column, Float, Integer, String, text

revision = "0005"
down_revision = "0004"

FORMER = "run_specialist_queue.gates"
"""The gates of a fleet that was set up before this revision, on PostgreSQL."""


def upgrade() -> None:
    """Add the table and the column; the gates of an earlier fleet move into the table."""
    op.create_table(
        "gates",
        Column("batch_id", String, primary_key=True),
        Column("until", Float, nullable=False),
        Column("probe", Float, nullable=False),
        Column("failures", Integer, nullable=False),
        Column("reason", String, nullable=False),
    )
    op.add_column("items", Column("granted", Float))
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    if connection.execute(text("select to_regclass(:name)"), {"name": FORMER}).scalar() is not None:
        names = "batch_id, until, probe, failures, reason"
        connection.execute(text(f"insert into gates ({names}) select {names} from {FORMER}"))  # noqa: S608 - constants
        connection.execute(text(f"drop table {FORMER}"))
