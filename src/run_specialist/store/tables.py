"""The tables. Keys are known before the insert, so that a transaction can be sent again without doubling anything.

A new SQLite file is made by `tables.sql`, and written by `statements.py`, without SQLAlchemy; tests hold them to this.
"""

from sqlalchemy import Boolean, Column, Dialect, Float, Index, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.types import TypeDecorator

from run_specialist.store.packing import pack, unpack


class PackedText(TypeDecorator[str]):
    """A packed text."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 - SQLAlchemy's
        """Pack it."""
        return None if value is None else pack(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - likewise
        """Return the text as it was."""
        return None if value is None else unpack(value)


metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("parent_id", String, index=True),
    Column("specialist", String, nullable=False),
    Column("model", String, nullable=False),
    Column("question", PackedText, nullable=False),
    Column("status", String, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("owner", String, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("cost_usd", Float),
    Column("frozen", PackedText, nullable=False),
    Column("standing", PackedText),
    Column("outcome", PackedText),
    Index("runs_by_specialist", "specialist", "started_at"),
    Index("runs_by_start", "started_at"),
)

turns = Table(
    "turns",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("choice", String, nullable=False),
    Column("words", PackedText),
    Column("landing", Boolean, nullable=False),
    Column("stop", String, nullable=False),
    Column("reason", PackedText, nullable=False),
    Column("blocks", PackedText, nullable=False),
    Column("more_room_helps", Boolean, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("cache_read_input_tokens", Integer, nullable=False),
    Column("cache_creation_input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("cost_usd", Float),
)

messages = Table(
    "messages",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("role", String, nullable=False),
    Column("blocks", PackedText, nullable=False),
    Column("words", PackedText),
    Column("copied", Boolean, nullable=False),
)

calls = Table(
    "calls",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("at", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("call_id", PackedText, nullable=False),
    Column("name", PackedText, nullable=False),
    Column("arguments", PackedText),
    Column("characters", Integer, nullable=False),
    Column("is_error", Boolean, nullable=False),
    Column("note", PackedText, nullable=False),
    Column("repeated", Boolean, nullable=False),
)

outputs = Table(
    "outputs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("body", PackedText, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("body", PackedText, nullable=False),
)
