"""The tables of a store, declared once as data, and the statements that write them.

The statements are plain SQL, because importing SQLAlchemy takes longer than an offline run. SQLAlchemy's tables, the
first migration and the conversion of values in `rows` come from the same declaration.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from run_specialist.store.location import VERSION

RUNNING = "running"
"""Status of a run that has no outcome."""
WAITING, BEGUN, ENDED, DEAD, CANCELLED = "waiting", "begun", "ended", "dead", "cancelled"
"""States of an item; if it has a run, the run's status is more precise, except for `dead`."""
OPEN, PAUSED = "open", "paused"
"""States of a batch, which can also be `ended` or `cancelled`."""


class Schema(NamedTuple):
    """A table."""

    key: Sequence[str]
    """Columns of the primary key. They are known before the insert, so that a transaction can be sent again."""
    columns: Mapping[str, str]
    """Column types by name, in order; `?` marks a nullable column.

    The types are `text`, `packed` (a text as bytes), `folded` (a text as bytes to search in), `integer` (an amount,
    clamped to what the column accepts), `ordinal` (a number that this program counts, stored as it is
    or not at all), `float`, `flag`.
    """
    indexes: Mapping[str, Sequence[str]]
    """Indexed columns by the name of the index."""

    @classmethod
    def of(cls, key: str, columns: str, **indexes: str) -> Self:
        """Return a table.

        columns: name and type of each column, with commas between columns.
        key, indexes: names of columns, with spaces between them.
        """
        names, kinds = zip(*(one.split() for one in columns.split(",")), strict=True)
        return cls(
            key.split(), dict(zip(names, kinds, strict=True)), {name: of.split() for name, of in indexes.items()}
        )


SCHEMAS = {
    "runs": Schema.of(
        "run_id",
        "run_id text, parent_id text?, specialist text, model text, question packed, status text, started_at float, "
        "ended_at float?, owner text, tool_calls integer, cost_usd float?, project text?, digest text?, "
        "limits_changed flag?, duration_s float?, frozen packed, standing packed?, outcome packed?",
        ix_runs_parent_id="parent_id",
        runs_by_project="project started_at",
        runs_by_specialist="specialist started_at",
        runs_by_start="started_at",
    ),
    # The records of a run as JSON, with columns for what queries filter by.
    "turns": Schema.of("run_id number", "run_id text, number ordinal, body packed"),
    "calls": Schema.of("run_id number", "run_id text, number ordinal, repeated flag, body packed"),
    "events": Schema.of("run_id number", "run_id text, number ordinal, at float, body packed"),
    "messages": Schema.of("run_id part place", "run_id text, part ordinal, place ordinal, copied flag, body packed"),
    # What tools have changed in files; a row is committed before its file is replaced.
    "changes": Schema.of("run_id change_id", "run_id text, change_id text, body packed"),
    # A separate table, because a search reads all its rows, and those of `runs` are long.
    "search": Schema.of("run_id", "run_id text, question folded, answer folded"),
    # `frozen` is long and rarely needed, so values in listings have separate columns.
    "batches": Schema.of(
        "batch_id",
        "batch_id text, specialist text, model text?, project text?, question packed, created_at float, "
        "cost_limit float?, state text, reason packed?, frozen packed",
        batches_by_project="project created_at",
    ),
    # The key begins with the run, because a listing of runs looks up whether a run belongs to a batch.
    # `granted`: the maximum cost of its run, reserved from the cost limit of the batch; null = nothing.
    "items": Schema.of(
        "run_id batch_id",
        "run_id text, batch_id text, number ordinal?, state text, takeovers integer, turns integer, error packed?, "
        "input packed, question packed, granted float?",
        items_by_number="batch_id number",
    ),
    # A batch of a fleet has a row while its endpoint refuses requests.
    "gates": Schema.of("batch_id", "batch_id text, until float, probe float, failures integer, reason text"),
}
SQLITE = {
    "text": "VARCHAR",
    "packed": "BLOB",
    "folded": "BLOB",
    "integer": "INTEGER",
    "ordinal": "INTEGER",
    "float": "FLOAT",
    "flag": "BOOLEAN",
}
"""SQLite's names of the column types."""


def sqlite_statements() -> list[str]:
    """Return the statements that create the tables, indexes and Alembic version of a new SQLite file."""
    made = []
    for name, schema in SCHEMAS.items():
        columns = [
            f"{column} {SQLITE[kind.removesuffix('?')]}{'' if kind.endswith('?') else ' NOT NULL'}"
            for column, kind in schema.columns.items()
        ]
        made.append(f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({', '.join(schema.key)}))")
        made += [f"CREATE INDEX {index} ON {name} ({', '.join(of)})" for index, of in schema.indexes.items()]
    return [
        *made,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, PRIMARY KEY (version_num))",
        f"INSERT INTO alembic_version (version_num) VALUES ('{VERSION:04}')",  # noqa: S608 - a number
    ]


# The statements need no library, and prepared ones take a tenth of the time. Each value is a parameter with the name of
# its column. The linter's rule against composed SQL does not apply: all parts are constants.


def insert(table: str, *omitted: str) -> str:
    """Return the statement that inserts a row.

    omitted: columns without a value.
    """
    names = [name for name in SCHEMAS[table].columns if name not in omitted]
    return f"insert into {table} ({', '.join(names)}) values ({', '.join(f':{name}' for name in names)})"  # noqa: S608


def update(table: str, *names: str, key: str) -> str:
    """Return the statement that updates columns of the row with a key."""
    return f"update {table} set {', '.join(f'{name} = :{name}' for name in names)} where {key} = :{key}"  # noqa: S608
