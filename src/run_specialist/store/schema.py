"""The tables of a store, declared once as data, and the statements that write them.

The statements are plain SQL, because importing SQLAlchemy takes longer than an offline run. SQLAlchemy's tables, the
first migration and the conversion of values in `rows` come from the same declaration.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
    # The records of a run as JSON, with columns for what queries filter by.
    "turns": Schema(key=["run_id", "number"], columns={"run_id": "text", "number": "ordinal", "body": "packed"}),
    "calls": Schema(
        key=["run_id", "number"],
        columns={"run_id": "text", "number": "ordinal", "repeated": "flag", "body": "packed"},
    ),
    "events": Schema(
        key=["run_id", "number"], columns={"run_id": "text", "number": "ordinal", "at": "float", "body": "packed"}
    ),
    "messages": Schema(
        key=["run_id", "part", "place"],
        columns={"run_id": "text", "part": "ordinal", "place": "ordinal", "copied": "flag", "body": "packed"},
    ),
    # What tools have changed in files; a row is committed before its file is replaced.
    "changes": Schema(key=["run_id", "change_id"], columns={"run_id": "text", "change_id": "text", "body": "packed"}),
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
            "number": "ordinal?",
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
    "ordinal": "INTEGER",
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


ADDED = ("turns", "calls", "events", "changes")
"""Tables whose rows never change."""
KNOWN = ("status", "owner", "specialist", "model", "question", "frozen", "outcome")
"""The columns of `KnownRun`, in its order."""

_LATER = {"ended_at", "duration_s", "standing", "outcome"}
"""Columns of a run that are empty when it begins."""


class Statements:
    """The SQL that writes rows, in the dialect of one database; each value is a parameter with the name of its column.

    It needs no library. Prepared statements take a tenth of the time. The linter's rule against composed SQL does not
    apply: all parts are constants.
    """

    def __init__(self, parameter: str, prefix: str = "", lock: str = "") -> None:
        """Build the statements.

        parameter: format of a named parameter.
        prefix: precedes each table name.
        lock: clause that locks the rows of a query until the commit.
        """
        runs, items = f"{prefix}runs", f"{prefix}items"

        def given(*names: str, between: str = " and ") -> str:
            return between.join(f"{name} = {parameter.format(name)}" for name in names)

        def insert(table: str, *omitted: str) -> str:
            names = [name for name in SCHEMAS[table].columns if name not in omitted]
            return (
                f"insert into {prefix}{table} ({', '.join(names)}) values ({', '.join(map(parameter.format, names))})"  # noqa: S608
            )

        def update(table: str, *names: str, key: str) -> str:
            return f"update {prefix}{table} set {given(*names, between=', ')} where {given(key)}"  # noqa: S608

        begin = insert("runs", *_LATER)
        self.insert_run = (
            f"{begin} on conflict (run_id) do update set frozen = excluded.frozen, "
            f"model = excluded.model, limits_changed = excluded.limits_changed where runs.owner = excluded.owner"
        )
        """Inserts a run; a resumed one gets its new limits and model."""
        self.insert_new_run = f"{begin} on conflict (run_id) do nothing"
        """Inserts a run unless one with this id is stored, regardless of its owner."""
        self.insert_search = f"{insert('search')} on conflict (run_id) do update set question = excluded.question"
        """Inserts the texts to search in; a resumed run gets its further question."""
        self.update_answer = update("search", "answer", key="run_id")
        """Updates the answer to search in."""
        self.insert_row = {table: f"{insert(table)} on conflict do nothing" for table in ADDED}
        """Inserts a row, by table; repeating it has no effect."""
        self.insert_message = insert("messages")
        self.delete_messages = (
            f"delete from {prefix}messages where {given('run_id', 'part')} and place >= {parameter.format('place')}"  # noqa: S608
        )
        """Deletes the messages of a part from an index on."""
        self.update_snapshot = update("runs", "standing", "tool_calls", "cost_usd", "duration_s", key="run_id")
        """Updates the state of a running run."""
        self.update_end = update("runs", "status", "ended_at", "duration_s", "outcome", key="run_id")
        """Updates a run that ends."""
        self.select_owner = f"select status, owner from {runs} where {given('run_id')}"  # noqa: S608
        self.select_known = f"select {', '.join(KNOWN)} from {runs} where {given('run_id')}"  # noqa: S608
        """Selects a run without its transcript."""
        self.change_owner = (
            f"update {runs} set owner = {parameter.format('new_owner')}, status = '{RUNNING}', ended_at = null "  # noqa: S608
            f"where {given('run_id', 'owner', 'status')}"
        )
        """Changes the owner of an interrupted run."""
        counted = (("turns", "count(*)"), ("calls", "count(*)"), ("events", "coalesce(max(number), 0)"))
        counts = (f"(select {what} from {prefix}{table} where {given('run_id')})" for table, what in counted)  # noqa: S608
        self.count_rows = f"select {', '.join(counts)}"
        """Counts the stored turns and calls of a run, and returns the number of its newest event."""

        kept = {"batch_id", "project", "created_at"}
        changed = ", ".join(f"{name} = excluded.{name}" for name in SCHEMAS["batches"].columns if name not in kept)
        self.put_batch = f"{insert('batches')} on conflict (batch_id) do update set {changed}"
        """Inserts a batch; a repeated call keeps the time of the first."""
        self.forget_numbers = f"update {items} set number = null where {given('batch_id')} and number is not null"  # noqa: S608
        """Removes the numbers that the items had in the previous call."""
        self.put_item = (
            f"{insert('items')} on conflict (run_id, batch_id) do update set number = excluded.number, "
            f"state = case when items.state = '{CANCELLED}' then '{WAITING}' else items.state end"
        )
        """Inserts an item; a repeated one gets its new number and keeps its state, unless it was cancelled."""
        self.select_all_begun = (
            f"select {runs}.run_id, {runs}.cost_usd from {items} join {runs} on {runs}.run_id = {items}.run_id "  # noqa: S608
            f"where {given('batch_id')}"
        )
        """Selects the stored runs of the items of all calls, with their cost."""
        self.select_begun = f"{self.select_all_begun} and {items}.number is not null"
        """Selects the stored runs of the items of the newest call, with their cost."""
        self.set_state = update("batches", "state", "reason", key="batch_id")
        self.set_frozen = update("batches", "frozen", key="batch_id")
        self.cancel_waiting = (
            f"update {items} set state = '{CANCELLED}' where {given('batch_id')} and state = '{WAITING}'"  # noqa: S608
        )
        """Cancels the items of a batch that have not begun."""
        this_item = f"where {given('batch_id', 'run_id')}"
        self.mark_item = f"update {items} set {given('state', 'error', between=', ')} {this_item}"  # noqa: S608
        """Sets state and error of an item."""
        self.put_back = (
            f"update {items} set state = '{WAITING}', error = null, takeovers = 0, turns = 0, granted = null "  # noqa: S608
            f"{this_item}"
        )
        """Resets an item to the state before it began."""
        turns = parameter.format("turns")
        self.take_over = (
            f"update {items} set takeovers = case when turns < {turns} then 1 else takeovers + 1 end, "  # noqa: S608
            f"turns = {turns} {this_item}"
        )
        """Counts a takeover; the count restarts after a new turn."""
        self.select_takeovers = f"select takeovers from {items} {this_item}"  # noqa: S608

        def select_owned(count: int) -> str:
            names = ", ".join(parameter.format(f"run_{number}") for number in range(count))
            return f"select run_id from {runs} where {given('owner')} and run_id in ({names}){lock}"  # noqa: S608

        self.select_owned = select_owned
        """Returns the query that filters this many runs, `run_0` and so on, by their owner."""
