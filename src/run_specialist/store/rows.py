"""Convert records to rows, and rows to records."""

import json
import math
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, lru_cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

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
    RunSnapshot,
)
from run_specialist.record.messages import Message, ToolCall, Usage, searches
from run_specialist.record.outcome import (
    Child,
    Exit,
    FileChange,
    Outcome,
)
from run_specialist.store.schema import COLUMNS, PACKED, RUNNING, SCHEMAS
from run_specialist.store.stored import StoredCall, StoredEvent, StoredMessage, StoredRun, StoredTurn


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
    """Build a run from the columns `KNOWN`, whose long texts are packed."""
    status, owner, specialist, model, question, frozen, outcome = columns
    return KnownRun(
        run_id,
        status,
        owner,
        specialist,
        model,
        unpack(question),
        json.loads(unpack(frozen)),
        None if outcome is None else outcome_of(json.loads(unpack(outcome))),
    )


StoredRow = Mapping[str, Any]
"""The columns of a row by name."""

_UNPRINTED = {"error", "exit_code"}
"""Fields of an outcome that `--json` does not print."""
_EXIT_CODES = {"failed": Exit.NO_ANSWER, "aborted": Exit.INTERRUPTED}
"""Exit codes of printed outcomes, by status; all others are `OK`."""
_HAVE_ERRORS = {*_EXIT_CODES, "partial"}
"""The statuses of outcomes with an error."""


def stored_run(
    listed: Mapping[str, Any], run: StoredRow, rows: Mapping[str, Iterable[StoredRow]], children: tuple[Child, ...]
) -> StoredRun:
    """Build a run from its rows.

    listed: fields of `ListedRun`.
    run: row of the table `runs`.
    rows: ordered rows of the other tables by table name; rows of `calls` include the `body` of their output.
    """
    frozen = json.loads(run["frozen"])
    fork = frozen.get("fork") or {}
    turns, calls, messages = [], [], []
    for row in rows["turns"]:
        blocks = tuple(json.loads(row["blocks"]))
        usage = Usage(**_shared(Usage, row), web_search_requests=searches(blocks))
        values = {**_shared(StoredTurn, row), "blocks": blocks, "usage": usage, "landing_instruction": row["words"]}
        turns.append(StoredTurn(**values))
    for row in rows["calls"]:
        call = ToolCall(row["call_id"], row["name"], row["arguments"] and json.loads(row["arguments"]))
        calls.append(StoredCall(**_shared(StoredCall, row), call=call, whole=row["body"]))
    for row in rows["messages"]:
        message = Message(row["role"], tuple(json.loads(row["blocks"])), row["words"])
        messages.append(StoredMessage(**_shared(StoredMessage, row), message=message))
    return StoredRun(
        **listed,
        forked_from=fork.get("run_id"),
        forked_at=fork.get("at"),
        frozen=frozen,
        snapshot=None if run["standing"] is None else restored(RunSnapshot, json.loads(run["standing"])),
        outcome=outcome(run["outcome"]),
        turns=tuple(turns),
        calls=tuple(calls),
        messages=tuple(messages),
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


_T = TypeVar("_T")
_hints = cache(get_type_hints)


def restored(kind: type[_T], value: Any) -> _T:  # noqa: ANN401 - JSON
    """Build a record from its JSON values, with all records in it; numbers and texts stay as they are.

    kind: a dataclass, or the type of a field of one.
    Raises ValueError, TypeError or LookupError for other values.
    """
    found: Any = value
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        # `dict` refuses a damaged value by an error of the kinds that callers expect.
        found = kind(**{name: restored(_hints(kind)[name], one) for name, one in dict(value).items()})
    elif kind is Exit:
        found = Exit(value)
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
    return FileChange(
        event["path"],
        event.get("change", "created" if event["is_new"] else "changed"),
        event["added"],
        event["removed"],
        event.get("undoable", True),
    )


def _shared(kind: type, row: StoredRow) -> dict[str, Any]:
    """Return the columns that have the names of a dataclass's fields."""
    return {name: row[name] for name in _names(kind) if name in row}


# Encode untrusted text as bytes: a lone surrogate or a NUL in a text column would fail the whole transaction.
#
# The first byte is 1 if the rest is compressed with zlib, else 0.

PACKED_FROM = 2_000
"""Minimum size of compressed texts [bytes]."""


def pack(text: str) -> bytes:
    """Encode a text, compressed if it is long."""
    plain = text.encode("utf-8", "surrogatepass")
    return b"\0" + plain if len(plain) < PACKED_FROM else b"\1" + zlib.compress(plain, 1)


def packed(text: str | None) -> bytes | None:
    """Encode the text of a column that may be empty."""
    return None if text is None else pack(text)


def unpack(packed: bytes, most: int | None = None) -> str:
    """Return the original text.

    most: maximum size [bytes]; None = any.
    Raises zlib.error, ValueError or IndexError for other bytes than those of `pack`, and for a larger text.
    """
    rest = bytes(packed[1:])
    if packed[0] and most is None:
        rest = zlib.decompress(rest)
    elif packed[0] and most is not None:
        reader = zlib.decompressobj()
        rest = reader.decompress(rest, most + 1)
        if not reader.eof and len(rest) <= most:
            raise zlib.error("incomplete or truncated stream")
    if most is not None and len(rest) > most:
        raise ValueError(f"it is larger than {most // 1024**2} MiB")
    return rest.decode("utf-8", "surrogatepass")


LARGEST = 2**31 - 1
"""Largest value of an integer column in all databases."""

Row = dict[str, Any]
"""Values by column."""
Values = tuple[object, ...]
"""The values of one statement, in the order of its parameters."""


def row(table: str, **cells: Any) -> Row:  # noqa: ANN401 - untrusted
    """Return cells of a row as values that both databases accept in columns of their types."""
    kinds = SCHEMAS[table].columns
    return {name: _CELLS[kinds[name]](value) for name, value in cells.items()}


def _number(value: Any, otherwise: float | None) -> float | None:  # noqa: ANN401 - untrusted
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return otherwise if math.isnan(number) else number


def column_text(value: object) -> str:
    """Return a value as text for a character column: NUL and lone surrogates are replaced."""
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode()


_CELLS: Mapping[str, Callable[[Any], Any]] = {
    "text": column_text,
    "text?": lambda value: None if value is None else column_text(value),
    "packed": str,
    "packed?": lambda value: None if value is None else str(value),
    "folded": bytes,
    "integer": lambda value: int(min(max(_number(value, 0.0) or 0.0, 0.0), LARGEST)),
    "ordinal": lambda value: value,
    "ordinal?": lambda value: value,
    "float": lambda value: _number(value, 0.0),
    "float?": lambda value: _number(value, None),
    "flag": bool,
    "flag?": lambda value: None if value is None else bool(value),
}
"""Converts an untrusted value for a column of a type."""


def values(table: str, row: Row, names: Sequence[str] | None = None) -> Values:
    """Return the values of some columns of a row, with texts packed.

    names: in this order; None = all columns.
    """
    texts = PACKED[table]
    return tuple([packed(row[name]) if name in texts else row[name] for name in names or COLUMNS[table]])


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

    def add(self, table: str, **cells: object) -> None:
        """Add a new row of the run."""
        self.added.setdefault(table, []).append(row(table, run_id=self.run_id, **cells))

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
                body = json_text(_as_json(record.event), only_ascii=True)
                rows.add("events", number=event, at=record.at, body=body)
                event += 1
            case Opened():
                _open(rows, owner, record)
            case Received():
                _receive(rows, record)
            case Returned():
                call = record.call
                rows.add(
                    "calls",
                    number=record.number,
                    turn=record.turn,
                    at=record.at,
                    seconds=record.seconds,
                    call_id=call.id,
                    name=call.name,
                    arguments=None if call.arguments is None else json_text(call.arguments),
                    characters=record.characters,
                    is_error=record.is_error,
                    note=record.note,
                    repeated=record.repeated,
                )
                rows.add("outputs", number=record.number, body=record.whole)
            case FileChanging():
                rows.add(
                    "changes",
                    change_id=record.change_id,
                    at=record.at,
                    path=record.path,
                    old_digest=record.before,
                    new_digest=record.after or "",
                    old_content=record.content,
                    temporary_name=record.temporary,
                    folders=record.folders,
                )
            case Checkpointed():
                _checkpoint(rows, record)
            case Ended():
                if record.checkpointed is not None:
                    _checkpoint(rows, record.checkpointed)
                outcome = record.outcome
                printed = _as_json(outcome)
                # With the fields that `--json` does not print.
                whole = {**fields_of(outcome), **printed} if isinstance(printed, dict) else printed
                rows.ending = row(
                    "runs",
                    run_id=run_id,
                    status=outcome.status,
                    ended_at=_number(record.at, 0.0),
                    duration_s=outcome.duration_s,
                    outcome=json_text(whole),
                )
                rows.answer = row("search", run_id=run_id, answer=folded(str(outcome.answer)))
    return rows


def _open(rows: Rows, owner: str, record: Opened) -> None:
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
    questions = [record.question, *(frozen.get("questions") or ())]
    rows.add("search", question=folded("\n".join(map(str, questions))), answer=b"")


def _receive(rows: Rows, record: Received) -> None:
    reply, usage = record.reply, record.reply.usage
    rows.add(
        "turns",
        number=record.turn,
        at=record.at,
        seconds=record.seconds,
        choice=record.choice,
        words=record.landing_instruction,
        landing=record.landing,
        stop=reply.stop,
        reason=reply.reason,
        blocks=json_text(reply.content),
        more_room_helps=reply.more_room_helps,
        input_tokens=usage.input_tokens,
        cache_read_input_tokens=usage.cache_read_input_tokens,
        cache_creation_input_tokens=usage.cache_creation_input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=record.cost_usd,
    )


def _checkpoint(rows: Rows, record: Checkpointed) -> None:
    messages = [
        row(
            "messages",
            run_id=rows.run_id,
            part=record.part,
            place=place,
            role=message.role,
            blocks=json_text(message.blocks),
            words=message.landing_instruction,
            copied=place < record.copies,
        )
        for place, message in enumerate(record.messages, record.place)
    ]
    rows.replace(record.part, record.place, messages)
    rows.turns = record.snapshot.turns
    rows.snapshot = row(
        "runs",
        run_id=rows.run_id,
        standing=json_text(record.snapshot),
        tool_calls=record.snapshot.used.get("tool_calls", 0),
        cost_usd=record.snapshot.total.cost_usd,
        duration_s=record.snapshot.used.get("time"),
    )


def _as_json(value: Event | Outcome) -> object:
    """Return the value as `--events` or `--json` prints it."""
    # Most events print their fields, which needs no deep copy.
    if isinstance(value, Event) and type(value).as_json is Event.as_json:
        return {"event": value.event, **fields_of(value)}
    try:
        return value.as_json()
    except Exception:  # noqa: BLE001 - copying untrusted values may raise anything
        return value


LONGEST_NUMBER = 1_000
"""Larger integers are written in hexadecimal, since Python limits their conversion to decimal [bits]."""
DEEPEST = 100
"""Maximum nesting depth of values that need conversion."""
KINDS = 200
"""Cache size for the field names of dataclasses."""


def json_text(value: object, *, only_ascii: bool = False) -> str:
    """Return a value as compact JSON; parts that JSON cannot represent are converted to text. Never raises.

    The parsed JSON serializes to the same bytes in every request as the value itself.
    """
    encoder = _ASCII if only_ascii else _COMPACT
    try:
        return encoder.encode(value)
    except Exception:  # noqa: BLE001 - cycles, invalid keys, huge numbers, a mapping that changes during iteration
        return encoder.encode(_serializable(value, DEEPEST))


def _simplified(value: object) -> object:
    try:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return list(value)
        return fields_of(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
    except Exception:  # noqa: BLE001 - untrusted values run untrusted code
        return type(value).__name__


_ASCII, _COMPACT = (
    json.JSONEncoder(ensure_ascii=only_ascii, separators=(",", ":"), default=_simplified)
    for only_ascii in (True, False)
)


def fields_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the fields of a dataclass without copying their values."""
    return {name: getattr(value, name) for name in _names(value.__class__)}


@lru_cache(KINDS)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _serializable(value: object, depth: int) -> object:
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < LONGEST_NUMBER else hex(value)
    if depth == 0:
        return "…"
    plain = _simplified(value)
    if isinstance(plain, dict):
        return {str(_simplified(key)): _serializable(plain[key], depth - 1) for key in list(plain)}
    return [_serializable(item, depth - 1) for item in plain] if isinstance(plain, list) else plain


def folded(text: str) -> bytes:
    """Return a text for searches that ignore case and the composition of accents."""
    return unicodedata.normalize("NFC", text).casefold().encode("utf-8", "surrogatepass")
