"""Records to write, and the stored rows, read without any code of the store."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from run_specialist.record.events import BudgetSpent, Event, Finished
from run_specialist.record.journal import (
    Checkpointed,
    Ended,
    EventLogged,
    Journal,
    Opened,
    Received,
    Record,
    Returned,
    RunSnapshot,
    Spending,
)
from run_specialist.record.messages import Message, Reply, Stop, ToolCall, ToolResult, Usage
from run_specialist.record.outcome import Outcome, ToolCalls
from run_specialist.store.location import NAMESPACE, Location, file_of
from run_specialist.store.rows import unpack
from run_specialist.store.stored import StoredRun

TABLES = ("runs", "turns", "messages", "calls", "events")
FIGURES = Usage(10, 20, 30, 40)


def opened(run_id: str, **changed: Any) -> Opened:
    """Return the first record of a run."""
    values = {"specialist": "looker", "model": "scripted", "question": "What is known?", "frozen": {"system": "Look."}}
    return Opened(run_id=run_id, **(values | changed))


def event() -> Event:
    """Return an event."""
    return BudgetSpent("tool_calls", 30, 1, 29, "silent")


def received(turn: int, *blocks: dict[str, Any], usage: Usage = FIGURES) -> Received:
    """Return the record of a reply that calls a tool, or has other blocks."""
    call = {"type": "tool_use", "id": f"call-{turn}", "name": "look", "input": {"query": "é"}}
    reply = Reply(Stop.WANTS_TOOLS, blocks or (call,), usage, "tool_use")
    return Received(number=turn, choice="auto", landing=False, reply=reply, cost_usd=0.25, seconds=1.5)


def returned(number: int, whole: str = "a note", **changed: Any) -> Returned:
    """Return the record of an executed call; each turn has one."""
    call = ToolCall(f"call-{number}", "look", {"query": "é"})
    values = {"characters": 3, "is_error": False, "note": "", "repeated": False, "seconds": 0.5}
    return Returned(number=number, turn=number, call=call, whole=whole, **(values | changed))


def checkpointed(turn: int, place: int, messages: Sequence[Message], *, part: int = 0, copies: int = 0) -> Checkpointed:
    """Return the record of a run's state after some turns."""
    snapshot = RunSnapshot(
        used={"tool_calls": turn, "turns": turn}, total=Spending(Usage(10 * turn), turn / 4), calls=turn, last_text="…"
    )
    return Checkpointed(part=part, place=place, messages=tuple(messages), copies=copies, snapshot=snapshot)


def outcome(run_id: str, status: Any = "answered") -> Outcome:
    """Return an outcome."""
    return Outcome(
        run_id=run_id,
        specialist="looker",
        model="scripted",
        status=status,
        answer="It is known.",
        evidence=(),
        gaps=(),
        output={"é": [1, 2.5, None]},
        tool_calls=ToolCalls(2, 30, 0, 0),
        limits={},
        landing=None,
        usage=Usage(1),
        cost_usd=0.5,
        duration_s=1.0,
        warnings=(),
    )


def begun(run_id: str) -> list[Record]:
    """Return the records before a run's first request."""
    return [opened(run_id), checkpointed(0, 0, [Message.user("What is known?")])]


def turn_of(number: int, whole: str = "a note") -> list[Record]:
    """Return the records of one turn, including the checkpoint at its end."""
    record = received(number)
    said = [
        Message.user("What is known?") if number == 1 else answered(number - 1),
        Message("assistant", record.reply.content),
        answered(number),
    ]
    return [
        EventLogged(event=event()),
        record,
        returned(number, whole),
        EventLogged(event=event()),
        checkpointed(number, 2 * number - 2, said),
    ]


def answered(number: int) -> Message:
    """Return the message with the result of a turn's call."""
    return Message.results([ToolResult(f"call-{number}", f"result {number}")])


def ended(run_id: str) -> list[Record]:
    """Return the records at the end of a run; the last one is written without waiting for it."""
    return [Ended(outcome=outcome(run_id)), EventLogged(event=Finished(outcome(run_id)))]


@contextmanager
def connection(url: str) -> Iterator[Any]:
    """Open a connection with the database's own driver, in autocommit mode."""
    path = file_of(url)
    if path is not None:
        found: Any = sqlite3.connect(path, isolation_level=None)
    else:
        import psycopg

        found = psycopg.connect(url, autocommit=True, options=f"-c search_path={NAMESPACE}")
    try:
        yield found
    finally:
        found.close()


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with connection(url) as found:
        return [tuple(row) for row in found.execute(query).fetchall()]


def change(url: str, statement: str) -> None:
    """Change the database without the writer."""
    with connection(url) as found:
        found.execute(statement)


def counts(url: str, run_id: str | None = None) -> dict[str, int]:
    """Return the number of rows of each table, in total or of one run."""
    which = "" if run_id is None else f"where run_id = '{run_id}'"
    query = "select count(*) from {} {}"
    return {table: ask(url, query.format(table, which))[0][0] for table in TABLES}


def unpacked(value: bytes | memoryview | None) -> str | None:
    """Return the text stored in a column of bytes."""
    return None if value is None else unpack(bytes(value))


def nowhere(url: str) -> Location:
    """Return the default location of a store, as if the user had not named one."""
    return Location(url, named=False)


async def write(journal: Journal, *records: Record) -> str | None:
    """Write some records, and wait until they are committed."""
    for record in records:
        journal.write(record)
    return await journal.committed()


def stored(run_id: str, turns: int = 0) -> StoredRun:
    """Return a loaded run with only the fields that resuming needs; each turn has one call."""
    values: dict[str, Any] = dict.fromkeys(StoredRun.__dataclass_fields__)
    if turns:
        values["snapshot"] = checkpointed(turns, 0, []).snapshot
    return StoredRun(**{**values, "run_id": run_id, "turns": (None,) * turns, "calls": (None,) * turns})
