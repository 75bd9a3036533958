"""The tables of a store as data: the only definition, from which SQL and SQLAlchemy's tables are made.

Writing to an SQLite file needs no SQLAlchemy, whose import takes longer than an offline run.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from run_specialist.store.identity import VERSION


class Schema(NamedTuple):
    """A table."""

    key: Sequence[str]
    """Columns of the primary key. They are known before the insert, so that a transaction can be sent again."""
    columns: Mapping[str, str]
    """Column types by name, in order; `?` marks a nullable column.

    The types are `text`, `packed` (a text as bytes), `folded` (a text as bytes to search in), `integer`, `float`,
    `flag`.
    """
    indexes: Mapping[str, Sequence[str]] = {}
    """Indexed columns by the name of the index."""


SCHEMAS = {
    "runs": Schema(
        key=["run_id"],
        columns={
            "run_id": "text",
            "parent_id": "text?",
            "specialist": "text",
            "model": "text",
            "question": "packed",
            "status": "text",
            "started_at": "float",
            "ended_at": "float?",
            "owner": "text",
            "tool_calls": "integer",
            "cost_usd": "float?",
            "project": "text?",
            "digest": "text?",
            "limits_changed": "flag?",
            "duration_s": "float?",
            "frozen": "packed",
            "standing": "packed?",
            "outcome": "packed?",
        },
        indexes={
            "ix_runs_parent_id": ["parent_id"],
            "runs_by_project": ["project", "started_at"],
            "runs_by_specialist": ["specialist", "started_at"],
            "runs_by_start": ["started_at"],
        },
    ),
    "turns": Schema(
        key=["run_id", "number"],
        columns={
            "run_id": "text",
            "number": "integer",
            "at": "float",
            "seconds": "float",
            "choice": "text",
            "words": "packed?",
            "landing": "flag",
            "stop": "text",
            "reason": "packed",
            "blocks": "packed",
            "more_room_helps": "flag",
            "input_tokens": "integer",
            "cache_read_input_tokens": "integer",
            "cache_creation_input_tokens": "integer",
            "output_tokens": "integer",
            "cost_usd": "float?",
        },
    ),
    "messages": Schema(
        key=["run_id", "part", "place"],
        columns={
            "run_id": "text",
            "part": "integer",
            "place": "integer",
            "role": "text",
            "blocks": "packed",
            "words": "packed?",
            "copied": "flag",
        },
    ),
    "calls": Schema(
        key=["run_id", "number"],
        columns={
            "run_id": "text",
            "number": "integer",
            "turn": "integer",
            "at": "float",
            "seconds": "float",
            "call_id": "packed",
            "name": "packed",
            "arguments": "packed?",
            "characters": "integer",
            "is_error": "flag",
            "note": "packed",
            "repeated": "flag",
        },
    ),
    "outputs": Schema(
        key=["run_id", "number"],
        columns={"run_id": "text", "number": "integer", "body": "packed"},
    ),
    "events": Schema(
        key=["run_id", "number"],
        columns={"run_id": "text", "number": "integer", "at": "float", "body": "packed"},
    ),
    # What tools have changed in files; a row is committed before its file is replaced.
    "changes": Schema(
        key=["run_id", "change_id"],
        columns={
            "run_id": "text",
            "change_id": "text",
            "at": "float",
            "path": "packed",
            "old_digest": "text?",
            "new_digest": "text",
            "old_content": "packed?",
            "temporary_name": "text",
            "folders": "integer",
        },
    ),
    # A separate table, because a search reads all its rows, and those of `runs` are long.
    "search": Schema(key=["run_id"], columns={"run_id": "text", "question": "folded", "answer": "folded"}),
    # `frozen` is long and rarely needed, so values in listings have separate columns.
    "batches": Schema(
        key=["batch_id"],
        columns={
            "batch_id": "text",
            "specialist": "text",
            "model": "text?",
            "project": "text?",
            "question": "packed",
            "created_at": "float",
            "cost_limit": "float?",
            "state": "text",
            "reason": "packed?",
            "frozen": "packed",
        },
        indexes={"batches_by_project": ["project", "created_at"]},
    ),
    # The key begins with the run, because a listing of runs looks up whether a run belongs to a batch.
    "items": Schema(
        key=["run_id", "batch_id"],
        columns={
            "run_id": "text",
            "batch_id": "text",
            "number": "integer?",
            "state": "text",
            "takeovers": "integer",
            "turns": "integer",
            "error": "packed?",
            "input": "packed",
            "question": "packed",
            # The maximum cost of its run, reserved from the cost limit of the batch; null = nothing.
            "granted": "float?",
        },
        indexes={"items_by_number": ["batch_id", "number"]},
    ),
    # A batch of a fleet has a row while its endpoint refuses requests.
    "gates": Schema(
        key=["batch_id"],
        columns={"batch_id": "text", "until": "float", "probe": "float", "failures": "integer", "reason": "text"},
    ),
}
_SQLITE = {
    "text": "VARCHAR",
    "packed": "BLOB",
    "folded": "BLOB",
    "integer": "INTEGER",
    "float": "FLOAT",
    "flag": "BOOLEAN",
}


def sqlite_statements() -> list[str]:
    """Return the statements that create the tables, indexes and Alembic version of a new SQLite file."""
    made = []
    for name, schema in SCHEMAS.items():
        columns = [
            f"{column} {_SQLITE[kind.removesuffix('?')]}{'' if kind.endswith('?') else ' NOT NULL'}"
            for column, kind in schema.columns.items()
        ]
        made.append(f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({', '.join(schema.key)}))")
        made += [f"CREATE INDEX {index} ON {name} ({', '.join(of)})" for index, of in schema.indexes.items()]
    return [
        *made,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, PRIMARY KEY (version_num))",
        f"INSERT INTO alembic_version (version_num) VALUES ('{VERSION:04}')",  # noqa: S608 - a number
    ]
