"""Convert records to rows, and rows to records."""

import json
import math
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import EnumType
from functools import cache, lru_cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from run_specialist.record import journal
from run_specialist.record.events import Event, Finished
from run_specialist.record.messages import Message
from run_specialist.record.outcome import Child, Exit, FileChange, Outcome
from run_specialist.store.schema import RUNNING, SCHEMAS
from run_specialist.store.stored import StoredEvent, StoredMessage, StoredRun

Row = Mapping[str, Any]
"""Values by column, as the database stores them."""


@dataclass(frozen=True, slots=True)
class KnownRun:
    """The row of a run."""

    run_id: str
    status: str
    """Status of the outcome; `running` while there is none, also if the run's process has died."""
    owner: str
    """Token of the process that began or resumed it."""
    specialist: str
    model: str
    question: str
    frozen: Mapping[str, Any]
    """Settings fixed at the start, as in `Opened.frozen`."""
    outcome: Outcome | None
    """The outcome of its last end; None if it has never ended."""

    @property
    def is_running(self) -> bool:
        """True if it has not ended since it was begun or resumed, also if its process has died."""
        return self.status == RUNNING

    @property
    def ended(self) -> Outcome | None:
        """The outcome; None while the run is in progress, or was interrupted."""
        return None if self.is_running else self.outcome


def known_run(run_id: str, *columns: Any) -> KnownRun:  # noqa: ANN401 - values of a database driver
    """Build a run from the columns that `Ledger.look` reads, whose long texts are packed."""
    status, owner, specialist, model, question, frozen, outcome = columns
    ended = None if outcome is None else outcome_of(json.loads(unpack(outcome)))
    return KnownRun(run_id, status, owner, specialist, model, unpack(question), json.loads(unpack(frozen)), ended)


# Fields of an outcome that `--json` does not print.
_UNPRINTED = {"error", "exit_code"}
# Exit codes of printed outcomes, by status; all others are `OK`.
_EXIT_CODES = {"failed": Exit.NO_ANSWER, "aborted": Exit.INTERRUPTED}
# The statuses of outcomes with an error.
_HAVE_ERRORS = {*_EXIT_CODES, "partial"}
_T = TypeVar("_T")


def stored_run(
    listed: Mapping[str, Any], run: Row, rows: Mapping[str, Iterable[Row]], children: tuple[Child, ...]
) -> StoredRun:
    """Build a run from its rows, with packed texts in plain form.

    listed: fields of `ListedRun`.
    run: row of the table `runs`.
    rows: ordered rows of the other tables by table name.
    """
    frozen = json.loads(run["frozen"])
    fork = frozen.get("fork") or {}
    return StoredRun(
        **listed,
        forked_from=fork.get("run_id"),
        forked_at=fork.get("at"),
        frozen=frozen,
        snapshot=None if run["standing"] is None else parsed(journal.RunSnapshot, run["standing"]),
        outcome=outcome(run["outcome"]),
        turns=tuple(parsed(journal.Received, row["body"]) for row in rows["turns"]),
        calls=tuple(parsed(journal.Returned, row["body"]) for row in rows["calls"]),
        messages=tuple(
            StoredMessage(row["part"], row["place"], row["copied"], parsed(Message, row["body"]))
            for row in rows["messages"]
        ),
        events=tuple(StoredEvent(row["number"], row["at"], json.loads(row["body"])) for row in rows["events"]),
        children=children,
    )


def outcome(text: str | None) -> Mapping[str, Any] | None:
    """Parse an outcome; return it as `--json` prints it."""
    if text is None:
        return None
    return {key: value for key, value in json.loads(text).items() if key not in _UNPRINTED}


def outcome_of(values: Mapping[str, Any]) -> Outcome:
    """Build the outcome as the run returned it.

    values: as it is stored, or as `--json` prints it; then status and warnings tell the error and the exit code.
    """
    status = values["status"]
    printed = {
        "error": values["warnings"][-1] if status in _HAVE_ERRORS and values["warnings"] else None,
        "exit_code": _EXIT_CODES.get(status, Exit.OK),
    }
    return restored(Outcome, {**printed, **values})


def parsed(kind: type[_T], text: str) -> _T:
    """Build a record from the text of `json_text`; raises the errors of `restored`."""
    return restored(kind, json.loads(text))


_hints = cache(get_type_hints)


def restored(kind: type[_T], value: Any) -> _T:  # noqa: ANN401 - JSON
    """Build a record from its JSON values, with all records in it; numbers and texts stay as they are.

    kind: a dataclass, or the type of a field of one.
    Raises ValueError, TypeError or LookupError for other values.
    """
    found: Any = value
    of: Any = kind
    origin, inner = get_origin(of), get_args(of)
    if is_dataclass(kind):
        # `dict` refuses a damaged value by an error of the kinds that callers expect.
        found = kind(**{name: restored(_hints(kind)[name], one) for name, one in dict(value).items()})
    elif isinstance(of, EnumType):
        found = of(value)
    elif origin is tuple:
        found = tuple(restored(inner[0], one) for one in value)
    elif origin is dict:
        found = {key: restored(inner[1], one) for key, one in dict(value).items()}
    elif origin in {Union, UnionType} and value is not None:
        found = restored(inner[0], value)
    return found  # type: ignore[no-any-return] # of the type above


def file_change(event: Mapping[str, Any]) -> FileChange | None:
    """Return the change of a file in a stored event; None for another event, and in a dry run."""
    if event.get("event") != "file_changed" or event["dry_run"]:
        return None
    return FileChange(event["path"], event["change"], event["added"], event["removed"], event["undoable"])


# Encode untrusted text as bytes: a lone surrogate or a NUL in a text column would fail the whole transaction.
#
# The first byte is 1 if the rest is compressed with zlib, else 0.

# Minimum size of compressed texts [bytes].
_PACKED_FROM = 2_000


def pack(text: str) -> bytes:
    """Encode a text, compressed if it is long."""
    plain = text.encode("utf-8", "surrogatepass")
    return b"\0" + plain if len(plain) < _PACKED_FROM else b"\1" + zlib.compress(plain, 1)


def unpack(packed: bytes, most: int | None = None) -> str:
    """Return the original text.

    most: maximum size [bytes]; None = any.
    Raises zlib.error, ValueError or IndexError for other bytes than those of `pack`, and for a larger text.
    """
    rest = bytes(packed[1:])
    if packed[0]:
        reader = zlib.decompressobj()
        rest = reader.decompress(rest, 0 if most is None else most + 1)
        if not reader.eof and (most is None or len(rest) <= most):
            raise zlib.error("incomplete or truncated stream")
    if most is not None and len(rest) > most:
        raise ValueError(f"it is larger than {most // 1024**2} MiB")
    return rest.decode("utf-8", "surrogatepass")


LARGEST = 2**31 - 1
"""Largest value of an integer column in all databases."""


def row(table: str, **values: Any) -> Row:  # noqa: ANN401 - untrusted
    """Return columns of a row with values that both databases accept."""
    kinds = SCHEMAS[table].columns
    return {
        name: None if value is None and kinds[name][-1] == "?" else _CELLS[kinds[name]](value)
        for name, value in values.items()
    }


def _number(value: Any) -> float:  # noqa: ANN401 - untrusted
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return 0.0 if math.isnan(number) else number


def column_text(value: object) -> str:
    """Return a value as text for a character column: NUL and lone surrogates are replaced."""
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def folded(text: str) -> bytes:
    """Return a text for searches that ignore case and the composition of accents."""
    return unicodedata.normalize("NFC", text).casefold().encode("utf-8", "surrogatepass")


# Converts an untrusted value for a column of a type.
_CELLS: dict[str, Callable[[Any], Any]] = {
    "text": column_text,
    "packed": lambda value: pack(str(value)),
    "folded": folded,
    "integer": lambda value: int(min(max(_number(value), 0.0), LARGEST)),
    "ordinal": lambda value: value,
    "float": _number,
    "flag": bool,
}
_CELLS |= {f"{kind}?": convert for kind, convert in _CELLS.items()}


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
    answer: Row | None = None
    """Change of the run's row for searches at its end."""
    turns: int | None = None
    """Number of turns completed with these rows; None if they contain no checkpoint."""

    def add(self, table: str, **values: object) -> None:
        """Add a new row of the run."""
        self.added.setdefault(table, []).append(row(table, run_id=self.run_id, **values))

    def checkpoint(self, record: journal.Checkpointed) -> None:
        """Replace the messages of a part from the place of a checkpoint on, and the state of the run."""
        part, place, snapshot = record.part, record.place, record.snapshot
        begin, before = self.tails.get(part, (place, []))
        messages = [one for one in before if one["place"] < place]
        for at, message in enumerate(record.messages, place):
            copied, body = at < record.copies, record_text(message)
            messages.append(row("messages", run_id=self.run_id, part=part, place=at, copied=copied, body=body))
        self.tails[part] = (min(begin, place), messages)
        self.turns = snapshot.turns
        self.snapshot = row(
            "runs",
            run_id=self.run_id,
            standing=record_text(snapshot),
            tool_calls=snapshot.used.get("tool_calls", 0),
            cost_usd=snapshot.total.cost_usd,
            duration_s=snapshot.used.get("time"),
        )


def rows_of(run_id: str, owner: str, records: Iterable[journal.Record], event: int) -> Rows:
    """Return the rows of records of one run.

    owner: token of the process that works on the run.
    records: in the order of writing.
    event: number of the next event.
    """
    rows = Rows(run_id)
    for record in records:
        match record:
            case journal.EventLogged():
                body = json_text(record.event) if isinstance(record.event, Finished) else record_text(record.event)
                rows.add("events", number=event, at=record.at, body=body)
                event += 1
            case journal.Opened():
                frozen = record.frozen
                rows.add(
                    "runs",
                    parent_id=record.parent_id,
                    specialist=record.specialist,
                    model=record.model,
                    question=record.question,
                    status=RUNNING,
                    started_at=record.at,
                    owner=owner,
                    tool_calls=0,
                    cost_usd=0.0,
                    project=frozen.get("project"),
                    digest=frozen.get("digest"),
                    limits_changed=bool(frozen.get("changed_limits")),
                    frozen=json_text(frozen),
                )
                questions = [frozen.get("first_question", record.question), *(frozen.get("questions") or ())]
                rows.add("search", question="\n".join(map(str, questions)), answer="")
            case journal.Received():
                rows.add("turns", number=record.number, body=record_text(record))
            case journal.Returned():
                rows.add("calls", number=record.number, repeated=record.repeated, body=record_text(record))
            case journal.FileChanging():
                rows.add("changes", change_id=record.change_id, body=record_text(record))
            case journal.Checkpointed():
                rows.checkpoint(record)
            case journal.Ended():
                if record.checkpointed is not None:
                    rows.checkpoint(record.checkpointed)
                outcome = record.outcome
                rows.ending = row(
                    "runs",
                    run_id=run_id,
                    status=outcome.status,
                    ended_at=record.at,
                    duration_s=outcome.duration_s,
                    # With the fields that `--json` does not print.
                    outcome=json_text({**fields_of(outcome), **_printed(outcome)}),
                )
                rows.answer = row("search", run_id=run_id, answer=str(outcome.answer))
    return rows


def _printed(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as `--json` prints it, or its fields if one cannot be copied."""
    try:
        return outcome.as_json()
    except Exception:  # noqa: BLE001 - copying untrusted values may raise anything
        return fields_of(outcome)


# Larger integers are written in hexadecimal, since Python limits their conversion to decimal [bits].
_LONGEST_NUMBER = 1_000
DEEPEST = 100
"""Maximum nesting depth of values that need conversion."""
KINDS = 200
"""Cache size for the field names of dataclasses."""


def json_text(value: object) -> str:
    """Return a value as compact JSON; parts that JSON cannot represent are converted to text. Never raises.

    The parsed JSON serializes to the same bytes in every request as the value itself.
    """
    try:
        return _COMPACT.encode(value)
    except Exception:  # noqa: BLE001 - cycles, invalid keys, huge numbers, a mapping that changes during iteration
        return _COMPACT.encode(_serializable(value, DEEPEST))


def record_text(value: object) -> str:
    """Return a record without an outcome as `json_text` does, five times as fast.

    Whatever the library refuses, such as lone surrogates, is left to `json_text`.
    """
    from pydantic_core import to_json  # noqa: PLC0415 - fast `--help`

    with suppress(Exception):
        # It knows neither the names of events nor that the content of a message is made of its other fields.
        plain = _simplified(value) if isinstance(value, Event | Message) else value
        return to_json(plain, fallback=_simplified).decode()
    return json_text(value)


def _simplified(value: object) -> object:
    try:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return list(value)
        if isinstance(value, Event):  # as `--events` prints it, without its deep copies
            return {"event": value.event, **fields_of(value)}
        if isinstance(value, Outcome):
            return _printed(value)
        return fields_of(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
    except Exception:  # noqa: BLE001 - untrusted values run untrusted code
        return type(value).__name__


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_simplified)


def fields_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the fields of a dataclass without copying their values."""
    return {name: getattr(value, name) for name in _names(value.__class__)}


@lru_cache(KINDS)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.init)


def _serializable(value: object, depth: int) -> object:
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < _LONGEST_NUMBER else hex(value)
    if depth == 0:
        return "…"
    plain = _simplified(value)
    if isinstance(plain, dict):
        return {str(_simplified(key)): _serializable(plain[key], depth - 1) for key in list(plain)}
    return [_serializable(item, depth - 1) for item in plain] if isinstance(plain, list) else plain
