"""What is written, as SQL for either database; written out beforehand, a statement costs a tenth, and no library.

Where a rule of the linter fears for what is put together here: it is all ours, and values go by their marks.
"""

from collections.abc import Mapping

from run_specialist.store.packing import pack
from run_specialist.store.schema import SCHEMAS
from run_specialist.store.to_rows import RUNNING

Row = Mapping[str, object]
"""Values by column."""
Values = tuple[object, ...]
"""Those of one statement, in the order of its marks."""

COLUMNS = {name: list(schema.columns) for name, schema in SCHEMAS.items()}
"""Of each table, in order."""
PACKED = {
    name: {column for column, kind in schema.columns.items() if kind.startswith("packed")}
    for name, schema in SCHEMAS.items()
}
"""The columns that hold packed texts."""
ADDED = ("turns", "calls", "outputs", "events")
"""The tables whose rows never change."""

_LATER = {"ended_at", "standing", "outcome"}
"""What a run has not when it begins."""
_BEGUN = [name for name in COLUMNS["runs"] if name not in _LATER]
_STANDING = ["standing", "tool_calls", "cost_usd"]
_ENDING = ["status", "ended_at", "outcome"]


def values(table: str, row: Row, names: list[str] | None = None) -> Values:
    """Return the values of some columns of a row, its texts packed.

    names: in this order; None = all columns.
    """
    packed = PACKED[table]
    return tuple([_packed(row[name]) if name in packed else row[name] for name in names or COLUMNS[table]])


def begun(row: Row) -> Values:
    """Return the values of a run that begins."""
    return values("runs", row, _BEGUN)


def standing(row: Row) -> Values:
    """Return the values of how a run stands."""
    return (*values("runs", row, _STANDING), row["of_run"])


def ending(row: Row) -> Values:
    """Return the values of how a run ended."""
    return (*values("runs", row, _ENDING), row["of_run"])


def _packed(text: object) -> bytes | None:
    return None if text is None else pack(str(text))


class Statements:
    """The statements in the words of one database."""

    def __init__(self, mark: str, prefix: str = "", lock: str = "") -> None:
        """Write them.

        mark: stands for a value.
        prefix: stands before the name of a table.
        lock: ends a query whose rows nobody else is to change before the commit.
        """
        runs = f"{prefix}runs"
        self.begin = (
            f"{_insert(prefix, 'runs', _BEGUN, mark)} on conflict (run_id) do update set frozen = excluded.frozen, "
            f"model = excluded.model where runs.owner = excluded.owner"
        )
        """A run; one that goes on is opened again, with the limits and the model that hold now."""
        self.add = {table: f"{_insert(prefix, table, COLUMNS[table], mark)} on conflict do nothing" for table in ADDED}
        """A row, by table; sent again it is there once."""
        self.say = _insert(prefix, "messages", COLUMNS["messages"], mark)
        """A message."""
        self.unsay = f"delete from {prefix}messages where run_id = {mark} and part = {mark} and place >= {mark}"  # noqa: S608
        """The messages of a part from a place on."""
        self.stand, self.end = (
            f"update {runs} set {', '.join(f'{name} = {mark}' for name in names)} where run_id = {mark}"  # noqa: S608
            for names in (_STANDING, _ENDING)
        )
        """How a run stands, and how it ended."""
        self.whose = f"select status, owner from {runs} where run_id = {mark}"  # noqa: S608
        """A run that is to be taken over."""
        self.take = (
            f"update {runs} set owner = {mark}, status = '{RUNNING}', ended_at = null "  # noqa: S608
            f"where run_id = {mark} and owner = {mark} and status = {mark}"
        )
        """Taking it over."""
        counted = (("turns", "count(*)"), ("calls", "count(*)"), ("events", "coalesce(max(number), 0)"))
        asked = (f"(select {what} from {prefix}{table} where run_id = {mark})" for table, what in counted)  # noqa: S608
        self.newest = f"select {', '.join(asked)}"
        """How many turns and calls of a run are kept, and the number of its newest event."""
        self._ours = f"select run_id from {runs} where owner = {mark} and run_id in ({{}}){lock}"  # noqa: S608
        self._mark = mark

    def ours(self, count: int) -> str:
        """Return the query for those of so many runs that nobody has taken over."""
        return self._ours.format(", ".join([self._mark] * count))


def _insert(prefix: str, table: str, names: list[str], mark: str) -> str:
    return f"insert into {prefix}{table} ({', '.join(names)}) values ({', '.join([mark] * len(names))})"  # noqa: S608
