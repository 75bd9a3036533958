"""The tables. Keys are known before the insert, so that a transaction can be sent again without doubling anything."""

import zlib

from sqlalchemy import Boolean, Column, Dialect, Float, Index, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.types import TypeDecorator

VERSION = 2
"""Of this schema; each revision under `migrations` is one more."""
APPLICATION_ID = 0x52537031
"""What tells our SQLite files from all others."""
NAMESPACE = "run_specialist"
"""The schema that holds the tables in a PostgreSQL database; others have tables named `runs`, too."""
PACKED_FROM = 2_000
"""Longer texts are compressed [bytes]."""


class Words(TypeDecorator[str]):
    """Text from outside, as bytes: a lone surrogate or a NUL would spoil the transaction of all who share it.

    The first byte says whether the rest is compressed.
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 - SQLAlchemy's
        """Encode, and pack what is long."""
        if value is None:
            return None
        plain = value.encode("utf-8", "surrogatepass")
        return b"\0" + plain if len(plain) < PACKED_FROM else b"\1" + zlib.compress(plain, 1)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - likewise
        """Return the text as it was."""
        if value is None:
            return None
        packed, rest = value[0], bytes(value[1:])
        return (zlib.decompress(rest) if packed else rest).decode("utf-8", "surrogatepass")


metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("parent_id", String, index=True),
    Column("specialist", String, nullable=False),
    Column("model", String, nullable=False),
    Column("question", Words, nullable=False),
    Column("status", String, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("owner", String, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("cost_usd", Float),
    Column("frozen", Words, nullable=False),
    Column("standing", Words),
    Column("outcome", Words),
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
    Column("words", Words),
    Column("landing", Boolean, nullable=False),
    Column("stop", String, nullable=False),
    Column("reason", Words, nullable=False),
    Column("blocks", Words, nullable=False),
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
    Column("blocks", Words, nullable=False),
    Column("words", Words),
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
    Column("call_id", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("arguments", Words),
    Column("characters", Integer, nullable=False),
    Column("is_error", Boolean, nullable=False),
    Column("note", Words, nullable=False),
    Column("repeated", Boolean, nullable=False),
)

outputs = Table(
    "outputs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("body", Words, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("body", Words, nullable=False),
)
