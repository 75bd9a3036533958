"""The first tables. A revision never changes, so this one does not use `schema.py`, which has the newest tables."""

from alembic import op
from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, String

revision = "0001"
down_revision = None

TABLES = {
    "runs": {
        "run_id": "text key",
        "specialist": "text",
        "model": "text",
        "question": "bytes",
        "status": "text",
        "started_at": "float",
        "ended_at": "float?",
        "owner": "text",
        "tool_calls": "integer",
        "cost_usd": "float?",
        "frozen": "bytes",
        "standing": "bytes?",
        "outcome": "bytes?",
    },
    "turns": {
        "run_id": "text key",
        "number": "integer key",
        "at": "float",
        "seconds": "float",
        "choice": "text",
        "words": "bytes?",
        "landing": "flag",
        "stop": "text",
        "reason": "bytes",
        "blocks": "bytes",
        "more_room_helps": "flag",
        "input_tokens": "integer",
        "cache_read_input_tokens": "integer",
        "cache_creation_input_tokens": "integer",
        "output_tokens": "integer",
        "cost_usd": "float?",
    },
    "messages": {
        "run_id": "text key",
        "part": "integer key",
        "place": "integer key",
        "role": "text",
        "blocks": "bytes",
        "words": "bytes?",
        "copied": "flag",
    },
    "calls": {
        "run_id": "text key",
        "number": "integer key",
        "turn": "integer",
        "at": "float",
        "seconds": "float",
        "call_id": "bytes",
        "name": "bytes",
        "arguments": "bytes?",
        "characters": "integer",
        "is_error": "flag",
        "note": "bytes",
        "repeated": "flag",
    },
    "outputs": {
        "run_id": "text key",
        "number": "integer key",
        "body": "bytes",
    },
    "events": {
        "run_id": "text key",
        "number": "integer key",
        "at": "float",
        "body": "bytes",
    },
}
"""Types by table and column: part of the primary key with `key`, nullable with `?`."""
INDEXES = {
    "runs_by_specialist": ("runs", ["specialist", "started_at"]),
    "runs_by_start": ("runs", ["started_at"]),
}
_TYPES = {"text": String, "bytes": LargeBinary, "float": Float, "integer": Integer, "flag": Boolean}


def upgrade() -> None:
    """Create the tables and indexes."""
    for table, columns in TABLES.items():
        op.create_table(table, *(_column(name, kind) for name, kind in columns.items()))
    for index, (table, names) in INDEXES.items():
        op.create_index(index, table, names)


def _column(name: str, kind: str) -> Column[object]:
    kind, _, key = kind.partition(" ")
    return Column(name, _TYPES[kind.rstrip("?")], primary_key=bool(key), nullable=kind.endswith("?"))
