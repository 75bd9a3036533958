"""The tables of a store as data, and the statements that write them.

Writing to an SQLite file needs no SQLAlchemy, whose import takes longer than an offline run.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from run_specialist.store.location import VERSION
from run_specialist.store.rows import RUNNING, pack


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


# The statements that write rows, as SQL for either database; prepared statements take a tenth of the time.
#
# They need no library. The linter's rule against composed SQL does not apply: all parts are constants, and values are
# parameters.

Row = Mapping[str, object]
"""Values by column."""
Values = tuple[object, ...]
"""The values of one statement, in the order of its parameters."""

COLUMNS = {name: list(schema.columns) for name, schema in SCHEMAS.items()}
"""Columns of each table, in order."""
PACKED = {
    name: {column for column, kind in schema.columns.items() if kind.startswith("packed")}
    for name, schema in SCHEMAS.items()
}
"""The columns that hold packed texts."""
ADDED = ("turns", "calls", "outputs", "events", "changes")
"""Tables whose rows never change."""
KNOWN = ("status", "owner", "specialist", "model", "question", "frozen", "outcome")
"""The columns of `KnownRun`, in its order."""

_LATER = {"ended_at", "duration_s", "standing", "outcome"}
"""Columns of a run that are empty when it begins."""
_BEGIN = [name for name in COLUMNS["runs"] if name not in _LATER]
_SNAPSHOT = ["standing", "tool_calls", "cost_usd", "duration_s"]
_END = ["status", "ended_at", "duration_s", "outcome"]


def values(table: str, row: Row, names: list[str] | None = None) -> Values:
    """Return the values of some columns of a row, with texts packed.

    names: in this order; None = all columns.
    """
    packed = PACKED[table]
    return tuple([_packed(row[name]) if name in packed else row[name] for name in names or COLUMNS[table]])


def begin_values(row: Row) -> Values:
    """Return the values of a new run."""
    return values("runs", row, _BEGIN)


def snapshot_values(row: Row) -> Values:
    """Return the values that record the state of a running run."""
    return (*values("runs", row, _SNAPSHOT), row["of_run"])


def end_values(row: Row) -> Values:
    """Return the values that record the end of a run."""
    return (*values("runs", row, _END), row["of_run"])


def answer_values(row: Row) -> Values:
    """Return the values that record the answer for searches."""
    return (row["answer"], row["of_run"])


def _packed(text: object) -> bytes | None:
    return None if text is None else pack(str(text))


class Statements:
    """The statements in the dialect of one database."""

    def __init__(self, mark: str, prefix: str = "", lock: str = "") -> None:
        """Build the statements.

        mark: placeholder of a value.
        prefix: precedes each table name.
        lock: clause that locks the rows of a query until the commit.
        """
        runs = f"{prefix}runs"
        self.insert_run = (
            f"{_insert(prefix, 'runs', _BEGIN, mark)} on conflict (run_id) do update set frozen = excluded.frozen, "
            f"model = excluded.model, limits_changed = excluded.limits_changed where runs.owner = excluded.owner"
        )
        """Inserts a run; a resumed one gets its new limits and model."""
        self.insert_new_run = f"{_insert(prefix, 'runs', _BEGIN, mark)} on conflict (run_id) do nothing"
        """Inserts a run unless one with this id is stored, regardless of its owner."""
        self.insert_search = (
            f"{_insert(prefix, 'search', COLUMNS['search'], mark)} on conflict (run_id) do update set "
            "question = excluded.question"
        )
        """Inserts the texts to search in; a resumed run gets its further question."""
        self.update_answer = f"update {prefix}search set answer = {mark} where run_id = {mark}"  # noqa: S608
        """Updates the answer to search in."""
        self.insert_row = {
            table: f"{_insert(prefix, table, COLUMNS[table], mark)} on conflict do nothing" for table in ADDED
        }
        """Inserts a row, by table; repeating it has no effect."""
        self.insert_message = _insert(prefix, "messages", COLUMNS["messages"], mark)
        """Inserts a message."""
        self.delete_messages = (
            f"delete from {prefix}messages where run_id = {mark} and part = {mark} and place >= {mark}"  # noqa: S608
        )
        """Deletes the messages of a part from an index on."""
        self.update_snapshot = _update(runs, _SNAPSHOT, mark)
        """Updates the state of a running run."""
        self.update_end = _update(runs, _END, mark)
        """Updates a run that ends."""
        self.select_owner = f"select status, owner from {runs} where run_id = {mark}"  # noqa: S608
        """Selects status and owner of a run."""
        self.select_known = f"select {', '.join(KNOWN)} from {runs} where run_id = {mark}"  # noqa: S608
        """Selects a run without its transcript."""
        self.change_owner = (
            f"update {runs} set owner = {mark}, status = '{RUNNING}', ended_at = null "  # noqa: S608
            f"where run_id = {mark} and owner = {mark} and status = {mark}"
        )
        """Changes the owner of an interrupted run."""
        self.count_rows = _count(prefix, mark)
        """Counts the stored turns and calls of a run, and returns the number of its newest event."""
        self._select_owned = f"select run_id from {runs} where owner = {mark} and run_id in ({{}}){lock}"  # noqa: S608
        self.mark = mark
        """Placeholder of a value."""
        self.prefix = prefix
        """Precedes each table name."""

    def select_owned(self, count: int) -> str:
        """Return the query that filters this many runs by their owner."""
        return self._select_owned.format(", ".join([self.mark] * count))


def _update(runs: str, names: list[str], mark: str) -> str:
    return f"update {runs} set {', '.join(f'{name} = {mark}' for name in names)} where run_id = {mark}"  # noqa: S608


def _count(prefix: str, mark: str) -> str:
    counted = (("turns", "count(*)"), ("calls", "count(*)"), ("events", "coalesce(max(number), 0)"))
    counts = (f"(select {what} from {prefix}{table} where run_id = {mark})" for table, what in counted)  # noqa: S608
    return f"select {', '.join(counts)}"


def _insert(prefix: str, table: str, names: list[str], mark: str) -> str:
    return f"insert into {prefix}{table} ({', '.join(names)}) values ({', '.join([mark] * len(names))})"  # noqa: S608


WAITING, BEGUN, ENDED, DEAD, CANCELLED = "waiting", "begun", "ended", "dead", "cancelled"
"""States of an item; if it has a run, the run's status is more precise, except for `dead`."""
OPEN, PAUSED = "open", "paused"
"""States of a batch, which can also be `ended` or `cancelled`."""


class BatchStatements:
    """The statements in the dialect of one database; their values are in the order of the text."""

    def __init__(self, dialect: Statements) -> None:
        """Build the statements.

        dialect: the other statements of the session.
        """
        mark, batches, items = dialect.mark, f"{dialect.prefix}batches", f"{dialect.prefix}items"
        kept = {"batch_id", "project", "created_at"}
        changed = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS["batches"] if name not in kept)
        this_item = f"where batch_id = {mark} and run_id = {mark}"
        self.put_batch = f"{_put(batches, 'batches', mark)} on conflict (batch_id) do update set {changed}"
        """Inserts a batch; a repeated call keeps the time of the first."""
        self.forget_numbers = f"update {items} set number = null where batch_id = {mark} and number is not null"  # noqa: S608
        """Removes the numbers that the items had in the previous call."""
        self.put_item = (
            f"{_put(items, 'items', mark)} on conflict (run_id, batch_id) do update set number = excluded.number, "
            f"state = case when items.state = '{CANCELLED}' then '{WAITING}' else items.state end"
        )
        """Inserts an item; a repeated one gets its new number and keeps its state, unless it was cancelled."""
        runs = f"{dialect.prefix}runs"
        self.select_all_begun = (
            f"select {runs}.run_id, {runs}.cost_usd from {items} join {runs} on {runs}.run_id = {items}.run_id "  # noqa: S608
            f"where {items}.batch_id = {mark}"
        )
        """Selects the stored runs of the items of all calls, with their cost."""
        self.select_begun = f"{self.select_all_begun} and {items}.number is not null"
        """Selects the stored runs of the items of the newest call, with their cost."""
        self.set_state = f"update {batches} set state = {mark}, reason = {mark} where batch_id = {mark}"  # noqa: S608
        """Sets the state of a batch and its reason."""
        self.set_frozen = f"update {batches} set frozen = {mark} where batch_id = {mark}"  # noqa: S608
        """Replaces the frozen values of a batch."""
        self.cancel_waiting = (
            f"update {items} set state = '{CANCELLED}' where batch_id = {mark} and state = '{WAITING}'"  # noqa: S608
        )
        """Cancels the items of a batch that have not begun."""
        self.mark_item = f"update {items} set state = {mark}, error = {mark} {this_item}"  # noqa: S608
        """Sets state and error of an item."""
        self.put_back = (
            f"update {items} set state = '{WAITING}', error = null, takeovers = 0, turns = 0, granted = null "  # noqa: S608
            f"{this_item}"
        )
        """Resets an item to the state before it began."""
        self.take_over = (
            f"update {items} set takeovers = case when turns < {mark} then 1 else takeovers + 1 end, "  # noqa: S608
            f"turns = {mark} {this_item}"
        )
        """Counts a takeover; the count restarts after a new turn."""
        self.select_takeovers = f"select takeovers from {items} {this_item}"  # noqa: S608
        """Selects the count of takeovers."""


def _put(name: str, table: str, mark: str) -> str:
    columns = COLUMNS[table]
    return f"insert into {name} ({', '.join(columns)}) values ({', '.join([mark] * len(columns))})"  # noqa: S608
