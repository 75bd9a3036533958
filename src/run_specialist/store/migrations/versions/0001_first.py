"""The tables as they were at first. What a revision says stays as it is, whatever becomes of `tables.py`."""

from alembic import op
from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, String

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "runs",
        Column("run_id", String, primary_key=True),
        Column("specialist", String, nullable=False),
        Column("model", String, nullable=False),
        Column("question", LargeBinary, nullable=False),
        Column("status", String, nullable=False),
        Column("started_at", Float, nullable=False),
        Column("ended_at", Float),
        Column("owner", String, nullable=False),
        Column("tool_calls", Integer, nullable=False),
        Column("cost_usd", Float),
        Column("frozen", LargeBinary, nullable=False),
        Column("standing", LargeBinary),
        Column("outcome", LargeBinary),
    )
    op.create_index("runs_by_specialist", "runs", ["specialist", "started_at"])
    op.create_index("runs_by_start", "runs", ["started_at"])
    op.create_table(
        "turns",
        Column("run_id", String, primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("at", Float, nullable=False),
        Column("seconds", Float, nullable=False),
        Column("choice", String, nullable=False),
        Column("words", LargeBinary),
        Column("landing", Boolean, nullable=False),
        Column("stop", String, nullable=False),
        Column("reason", LargeBinary, nullable=False),
        Column("blocks", LargeBinary, nullable=False),
        Column("more_room_helps", Boolean, nullable=False),
        Column("input_tokens", Integer, nullable=False),
        Column("cache_read_input_tokens", Integer, nullable=False),
        Column("cache_creation_input_tokens", Integer, nullable=False),
        Column("output_tokens", Integer, nullable=False),
        Column("cost_usd", Float),
    )
    op.create_table(
        "messages",
        Column("run_id", String, primary_key=True),
        Column("part", Integer, primary_key=True),
        Column("place", Integer, primary_key=True),
        Column("role", String, nullable=False),
        Column("blocks", LargeBinary, nullable=False),
        Column("words", LargeBinary),
        Column("copied", Boolean, nullable=False),
    )
    op.create_table(
        "calls",
        Column("run_id", String, primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("turn", Integer, nullable=False),
        Column("at", Float, nullable=False),
        Column("seconds", Float, nullable=False),
        Column("call_id", LargeBinary, nullable=False),
        Column("name", LargeBinary, nullable=False),
        Column("arguments", LargeBinary),
        Column("characters", Integer, nullable=False),
        Column("is_error", Boolean, nullable=False),
        Column("note", LargeBinary, nullable=False),
        Column("repeated", Boolean, nullable=False),
    )
    op.create_table(
        "outputs",
        Column("run_id", String, primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("body", LargeBinary, nullable=False),
    )
    op.create_table(
        "events",
        Column("run_id", String, primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("at", Float, nullable=False),
        Column("body", LargeBinary, nullable=False),
    )
