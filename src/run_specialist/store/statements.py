"""The statements that write rows, as SQL for either database; prepared statements take a tenth of the time.

They need no library. The linter's rule against composed SQL does not apply: all parts are constants, and values are
parameters.
"""

from collections.abc import Mapping

from run_specialist.store.packing import pack
from run_specialist.store.schema import SCHEMAS
from run_specialist.store.to_rows import RUNNING

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
