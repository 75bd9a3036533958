"""Journals for tests: one in memory, and the runs that result from its records, with and without a database."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from run_specialist.record.journal import Ended, Opened, Record
from run_specialist.store.location import Location
from run_specialist.store.reader import Store
from run_specialist.store.rows import Row, rows_of, stored_run, unpack
from run_specialist.store.selection import INTERRUPTED, LISTED
from run_specialist.store.stored import StoredRun
from run_specialist.store.writer import Writer


class Notebook:
    """A journal in memory, which stores everything immediately."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.outage: str | None = None
        self.has_begun = False

    def write(self, record: Record) -> None:
        """Store a record."""
        self.records.append(record)

    async def committed(self) -> str | None:
        """Return immediately, because every record is stored already."""
        return None

    def of(self, kind: type) -> list[Any]:
        """Return all records of one type."""
        return [record for record in self.records if isinstance(record, kind)]

    def until(self, kind: type, number: int = 1, *, before: bool = False) -> list[Record]:
        """Return the records up to the n-th one of a type, without that one if `before`; n counts from 1."""
        return until(self.records, kind, number, before=before)


def until(records: Sequence[Record], kind: type, number: int = 1, *, before: bool = False) -> list[Record]:
    """Return the records up to the n-th one of a type; see `Notebook.until`."""
    at = [place for place, record in enumerate(records) if isinstance(record, kind)][number - 1]
    return [*records[: at if before else at + 1]]


def stored(records: Sequence[Record]) -> StoredRun:
    """Return the run that a store would hold after these records and the end of the process, without a database."""
    rows = rows_of(next(one.run_id for one in records if isinstance(one, Opened)), "owner", records, 1)
    run = {
        "parent_id": None,
        "ended_at": None,
        "outcome": None,
        "standing": None,
        "duration_s": None,
        **rows.added["runs"][0],
    }
    run |= {key: rows.added["runs"][-1][key] for key in ("frozen", "model")}
    run |= rows.snapshot or {}
    ends = [isinstance(record, Ended) for record in records if isinstance(record, Ended | Opened)]
    run |= (ends[-1] and rows.ending) or {"status": INTERRUPTED}
    tables = {
        "turns": _of(rows.added, "turns"),
        "calls": _of(rows.added, "calls"),
        "messages": [_plain(row) for part in sorted(rows.tails) for row in rows.tails[part][1]],
        "events": _of(rows.added, "events"),
    }
    run = _plain(run)
    return stored_run({column.name: run[column.name] for column in LISTED}, run, tables, ())


def _plain(row: Row) -> dict[str, Any]:
    """Return a row with its texts unpacked."""
    return {name: unpack(value) if isinstance(value, bytes) else value for name, value in row.items()}


def _of(added: dict[str, list[Row]], table: str) -> list[dict[str, Any]]:
    """Return the rows of a table by number; of rows with the same number only the first."""
    first: dict[int, dict[str, Any]] = {}
    for row in added.get(table, ()):
        first.setdefault(row["number"], _plain(row))
    return [first[number] for number in sorted(first)]


async def keep(url: str, records: Sequence[Record]) -> None:
    """Write records into a store, as a process does that dies afterwards."""
    (run_id,) = {record.run_id for record in records if isinstance(record, Opened)}
    with closing(Writer(Location(url, named=True))) as writer:
        writer.check()
        journal = writer.journal(run_id)
        for record in records:
            journal.write(record)
        assert await journal.committed() is None


def load(url: str, run_id: str = "last") -> StoredRun:
    """Load a run from a store."""
    with Store(url) as store:
        return store.load(run_id)
