"""Add file changes with the previous content."""

from alembic import op
from sqlalchemy import Column, Float, Integer, LargeBinary, String

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "changes",
        Column("run_id", String, primary_key=True),
        Column("change_id", String, primary_key=True),
        Column("at", Float, nullable=False),
        Column("path", LargeBinary, nullable=False),
        Column("old_digest", String),
        Column("new_digest", String, nullable=False),
        Column("old_content", LargeBinary),
        Column("temporary_name", String, nullable=False),
        Column("folders", Integer, nullable=False),
    )
