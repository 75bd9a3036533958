"""Convert records to database rows. Pure; accepts records with any untrusted values."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from run_specialist.record.events import Event
from run_specialist.record.journal import (
    Checkpointed,
    Ended,
    EventLogged,
    FileChanging,
    Opened,
    Received,
    Record,
    Returned,
)
from run_specialist.record.outcome import Outcome
from run_specialist.store.as_text import column_text, fields_of, json_text
from run_specialist.store.folding import folded

RUNNING = "running"
"""Status of a run that has no outcome."""
LARGEST = 2**31 - 1
"""Largest value of an integer column in all databases."""

Row = dict[str, Any]


@dataclass
class Rows:
    """Rows from several records of one run; writing them is idempotent."""

    run_id: str
    added: dict[str, list[Row]] = field(default_factory=dict)
    """New rows by table."""
    tails: dict[int, tuple[int, list[Row]]] = field(default_factory=dict)
    """Replaced messages by part: the index from which on, and the new messages."""
    snapshot: Row | None = None
    """Changes of the run's row during the run."""
    ending: Row | None = None
    """Changes of the run's row at its end."""
    turns: int | None = None
    """Number of turns completed with these rows; None if they contain no checkpoint."""

    def add(self, table: str, row: Row) -> None:
        """Add a new row."""
        self.added.setdefault(table, []).append(row)

    def replace(self, part: int, place: int, messages: list[Row]) -> None:
        """Replace the messages of a part from index `place` on."""
        begin, before = self.tails.get(part, (place, []))
        unchanged = [row for row in before if row["place"] < place]
        self.tails[part] = (min(begin, place), unchanged + messages)

    @property
    def event_count(self) -> int:
        """Number of new events."""
        return len(self.added.get("events", ()))


def rows_of(run_id: str, owner: str, records: Iterable[Record], event: int) -> Rows:
    """Return the rows of records of one run.

    owner: token of the process that works on the run.
    records: in the order of writing.
    event: number of the next event.
    """
    rows = Rows(run_id)
    for record in records:
        match record:
            case EventLogged():
                rows.add("events", _event(run_id, event, record))
                event += 1
            case Opened():
                rows.add("runs", _run(run_id, owner, record))
                rows.add("search", _search(run_id, record))
            case Received():
                rows.add("turns", _turn(run_id, record))
            case Returned():
                rows.add("calls", _call(run_id, record))
                rows.add("outputs", {"run_id": run_id, "number": record.number, "body": str(record.whole)})
            case FileChanging():
                rows.add("changes", _change(run_id, record))
            case Checkpointed():
                _checkpoint(rows, record)
            case Ended():
                if record.checkpointed is not None:
                    _checkpoint(rows, record.checkpointed)
                rows.ending = {
                    "of_run": run_id,
                    "status": column_text(record.outcome.status),
                    "ended_at": _number(record.at, 0.0),
                    "duration_s": _number(record.outcome.duration_s, None),
                    "outcome": json_text(_whole(record.outcome)),
                    "answer": folded(str(record.outcome.answer)),
                }
    return rows


def _run(run_id: str, owner: str, record: Opened) -> Row:
    return {
        "run_id": run_id,
        "specialist": column_text(record.specialist),
        "model": column_text(record.model),
        "question": str(record.question),
        "status": RUNNING,
        "started_at": _number(record.at, 0.0),
        "owner": owner,
        "tool_calls": 0,
        "cost_usd": 0.0,
        "project": _text(record.frozen.get("project")),
        "digest": _text(record.frozen.get("digest")),
        "limits_changed": bool(record.frozen.get("changed_limits")),
        "frozen": json_text(record.frozen),
        "parent_id": record.parent_id,
    }


def _search(run_id: str, record: Opened) -> Row:
    questions = [record.question, *(record.frozen.get("questions") or ())]
    return {"run_id": run_id, "question": folded("\n".join(map(str, questions))), "answer": b""}


def _turn(run_id: str, record: Received) -> Row:
    reply, usage = record.reply, record.reply.usage
    return {
        "run_id": run_id,
        "number": record.turn,
        "at": _number(record.at, 0.0),
        "seconds": _number(record.seconds, 0.0),
        "choice": column_text(record.choice),
        "words": record.landing_instruction,
        "landing": bool(record.landing),
        "stop": column_text(reply.stop),
        "reason": str(reply.reason),
        "blocks": json_text(reply.content),
        "more_room_helps": bool(reply.more_room_helps),
        "input_tokens": _count(usage.input_tokens),
        "cache_read_input_tokens": _count(usage.cache_read_input_tokens),
        "cache_creation_input_tokens": _count(usage.cache_creation_input_tokens),
        "output_tokens": _count(usage.output_tokens),
        "cost_usd": _number(record.cost_usd, None),
    }


def _call(run_id: str, record: Returned) -> Row:
    return {
        "run_id": run_id,
        "number": record.number,
        "turn": record.turn,
        "at": _number(record.at, 0.0),
        "seconds": _number(record.seconds, 0.0),
        "call_id": str(record.call.id),
        "name": str(record.call.name),
        "arguments": None if record.call.arguments is None else json_text(record.call.arguments),
        "characters": _count(record.characters),
        "is_error": bool(record.is_error),
        "note": str(record.note),
        "repeated": bool(record.repeated),
    }


def _change(run_id: str, record: FileChanging) -> Row:
    return {
        "run_id": run_id,
        "change_id": column_text(record.change_id),
        "at": _number(record.at, 0.0),
        "path": str(record.path),
        "old_digest": record.before,
        "new_digest": record.after or "",
        "old_content": record.content,
        "temporary_name": column_text(record.temporary),
        "folders": _count(record.folders),
    }


def _checkpoint(rows: Rows, record: Checkpointed) -> None:
    messages = [
        {
            "run_id": rows.run_id,
            "part": record.part,
            "place": place,
            "role": column_text(message.role),
            "blocks": json_text(message.blocks),
            "words": None if message.landing_instruction is None else str(message.landing_instruction),
            "copied": place < record.copies,
        }
        for place, message in enumerate(record.messages, record.place)
    ]
    rows.replace(record.part, record.place, messages)
    rows.turns = record.snapshot.turns
    rows.snapshot = {
        "of_run": rows.run_id,
        "standing": json_text(record.snapshot),
        "tool_calls": _count(record.snapshot.used.get("tool_calls", 0)),
        "cost_usd": _number(record.snapshot.total.cost_usd, None),
        "duration_s": _number(record.snapshot.used.get("time"), None),
    }


def _event(run_id: str, number: int, record: EventLogged) -> Row:
    return {
        "run_id": run_id,
        "number": number,
        "at": _number(record.at, 0.0),
        "body": json_text(_as_json(record.event), only_ascii=True),
    }


def _as_json(value: Event | Outcome) -> object:
    """Return the value as `--events` or `--json` prints it."""
    # Most events print their fields, which needs no deep copy.
    if isinstance(value, Event) and type(value).as_json is Event.as_json:
        return {"event": value.event, **fields_of(value)}
    try:
        return value.as_json()
    except Exception:  # noqa: BLE001 - copying untrusted values may raise anything
        return value


def _whole(outcome: Outcome) -> object:
    """Return the outcome as `--json` prints it, with the fields that it does not print."""
    printed = _as_json(outcome)
    return {**fields_of(outcome), **printed} if isinstance(printed, dict) else printed


def _text(value: object) -> str | None:
    return None if value is None else column_text(value)


def _count(value: object) -> int:
    number = _number(value, 0.0)
    return int(min(max(number or 0.0, 0.0), LARGEST))


def _number(value: Any, otherwise: float | None) -> float | None:  # noqa: ANN401 - untrusted
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return otherwise if math.isnan(number) else number
