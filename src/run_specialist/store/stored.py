"""Stored runs and batches, as frozen values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from run_specialist.loop.compaction import FlattenedTranscript, turns
from run_specialist.loop.transcript import with_portable_ids
from run_specialist.record.journal import Received, Returned, RunSnapshot
from run_specialist.record.messages import Block, Message, is_result, server_calls, spoken, text_of
from run_specialist.record.outcome import Child


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in a listing."""

    run_id: str
    parent_id: str | None
    specialist: str
    model: str
    question: str
    """The newest question."""
    status: str
    """Status of the outcome; without one, `running` if the run's process is alive, else `interrupted`."""
    started_at: float
    """Start time [seconds since 1970]."""
    ended_at: float | None
    """End time; None while there is none [seconds since 1970]."""
    tool_calls: int
    """Tool calls spent so far."""
    cost_usd: float | None
    """Cost so far; None if a price is unknown [USD]."""
    project: str | None = field(default=None, kw_only=True)
    """Path of the project that the run worked in; None if it is unknown."""
    duration_s: float | None = field(default=None, kw_only=True)
    """Time of work so far; None if it is unknown [s]."""
    forked_from: str | None = field(default=None, kw_only=True)
    """The run that this fork was copied from; None if it is not a fork."""
    forked_at: int | None = field(default=None, kw_only=True)
    """Number of copied turns; None if it is not a fork."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A finished run, as tuning reads it."""

    run_id: str
    started_at: float
    outcome: Mapping[str, Any]
    """Outcome, as `--json` prints it."""
    calls: int
    """Number of executed tool calls."""
    repeated: int
    """Number of these calls that were answered from the record of an identical call."""
    digest: str | None = None
    """SHA-256 of its specialist's file; None if it is unknown, empty without a file."""
    limits_changed: bool | None = None
    """Whether its limits are not those of the file; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of the transcript."""

    part: int
    """Number of summarizations before this part."""
    place: int
    """Index in its part, from 0."""
    copied: bool
    """True if the summarization copied the message from the previous part, or created it."""
    message: Message


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event as `--events` prints it."""

    number: int
    at: float
    """Time [seconds since 1970]."""
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredRun(ListedRun):
    """A run with all its stored data."""

    frozen: Mapping[str, Any]
    """Settings fixed at the start, as in `Opened.frozen`."""
    snapshot: RunSnapshot | None
    """State before the newest request, or at the end; None if there was no request yet."""
    outcome: Mapping[str, Any] | None
    """Outcome, as `--json` prints it; None while there is none."""
    turns: tuple[Received, ...]
    """The replies of the model in order."""
    calls: tuple[Returned, ...]
    """Executed tool calls in call order."""
    messages: tuple[StoredMessage, ...]
    """Messages ordered by part and place."""
    events: tuple[StoredEvent, ...]
    children: tuple[Child, ...] = ()
    """Child runs, with any outcome or none."""

    @property
    def first_question(self) -> str:
        """The question that the run began with; `question` is the newest one."""
        return str(self.frozen.get("first_question", self.question))

    @property
    def own_turns(self) -> tuple[Received, ...]:
        """The replies that this run requested itself: for a fork, those after the copied ones."""
        return tuple(turn for turn in self.turns if turn.number > (self.forked_at or 0))

    def model_of(self, turn: int) -> str:
        """Return the id of the model that wrote the reply with this number."""
        if turn <= (self.forked_at or 0):
            return str((self.frozen.get("fork") or {}).get("model") or self.model)
        asked = self.snapshot.models if self.snapshot else ()
        return next((one.model for one in reversed(asked) if one.since_turn <= turn), self.model)

    @property
    def transcript(self) -> tuple[Message, ...]:
        """The messages from which to resume: those of the newest part."""
        newest = max((one.part for one in self.messages), default=0)
        return tuple(one.message for one in self.messages if one.part == newest)

    @property
    def pending(self) -> Received | None:
        """The reply that was received but not processed, because the process ended."""
        done = self.snapshot.turns if self.snapshot else 0
        return next((turn for turn in self.turns if turn.number > done), None)


# Convert the conversation of a stored run to rows. Pure.
#
# Messages that a summarization copied to a new part of the transcript are omitted, so that each message appears once.

Row = Mapping[str, Any]
"""`role`, `kind`, and by kind: `text` (user, assistant, summary), `name`, `id` and `arguments` (tool_call), or `name`,
`id`, `content` and `is_error` (tool_result)."""


def transcript_rows(run: StoredRun) -> list[Row]:
    """Return the conversation in order, without thinking and without empty text of the model.

    A pending reply comes last, with the results of its calls received so far.
    """
    names: dict[object, str] = {}
    rows = _first_rows(run)
    rows += [row for message in _in_order(run.messages) for row in _rows_of(message, names)]
    if pending := run.pending:
        rows += _rows("assistant", pending.reply.content, names)
        for call in run.calls:
            if call.turn == pending.number:
                content = "\n".join(filter(None, [call.text, call.note]))
                rows.append(_result(call.call.name, call.call.id, content, is_error=call.is_error))
    return rows


def copied_rows(run: StoredRun) -> int:
    """Return how many rows at the beginning a fork has copied from another run."""
    fork = run.frozen.get("fork")
    if not fork:
        return 0
    left, names = fork["messages"], dict[object, str]()
    copied = _first_rows(run)
    for message in _in_order(run.messages):
        if left == 0:
            break
        left -= isinstance(message, Message)
        copied += _rows_of(message, names)
    is_note = bool(copied) and copied[-1]["kind"] == "user" and copied[-1]["text"] == fork["note"]
    return len(copied) - is_note


def _first_rows(run: StoredRun) -> list[Row]:
    """Return the rows of the calls that preceded the first request."""
    rows: list[Row] = []
    for one in (one for one in run.calls if not one.turn):
        rows.append(_call({"name": one.call.name, "id": one.call.id, "input": one.call.arguments}))
        rows.append(_result(one.call.name, one.call.id, one.text, is_error=one.is_error))
    return rows


def _rows_of(message: Message | str, names: dict[object, str]) -> Iterator[Row]:
    if isinstance(message, str):
        return iter([{"role": "assistant", "kind": "summary", "text": message}])
    return _rows(message.role, message.content, names)


def _in_order(messages: Sequence[StoredMessage]) -> list[Message | str]:
    """Return the messages of all parts, with each summary at the point of its creation."""
    ordered: list[Message | str] = []
    for _, part in groupby(messages, key=lambda one: one.part):
        stored = [*part]
        copies = [one.message for one in stored if one.copied]
        if copies:
            # The last message of the previous part was sent only as this copy, to which text may have been added.
            last = ordered[-1] if ordered else None
            copy = copies[-1]
            if isinstance(last, Message):
                size = len(last.blocks)
                # The calls of a copy may have ids for another model.
                if copy.blocks[:size] in (last.blocks, with_portable_ids([last])[0].blocks):
                    blocks = (*last.blocks, *copy.blocks[size:])
                    ordered[-1] = replace(last, blocks=blocks, landing_instruction=copy.landing_instruction)
            # A part that a change of models began has no summary, or repeats the previous one.
            # It is the result of a call, or a section of the first message.
            summaries = [turn.summary for turn in turns(copies[1:]) if turn.summary is not None]
            summary = summaries[-1] if summaries else FlattenedTranscript.of(copies[0]).summary
            ordered += [summary] if summary and summary not in ordered else []
        ordered += (one.message for one in stored if not one.copied)
    return ordered


def _rows(role: str, blocks: Sequence[Block], names: dict[object, str]) -> Iterator[Row]:
    """Yield the rows of a message.

    names: tool names of the calls so far, by call id; extended with the calls of this message.
    """
    uses = {use.call.id: use for use in server_calls(blocks)}
    for kind, group in groupby(blocks, key=lambda block: "server" if is_result(block) else block.get("type")):
        match kind:
            case "server":
                for block in group:
                    use = uses[str(block.get("tool_use_id"))]
                    yield _result(use.call.name, use.call.id, use.text, is_error=bool(use.error))
            case "server_tool_use":
                yield from map(_call, group)
            case "text":
                text = text_of([*group])
                shown = text if role == "user" else spoken(text).strip()
                yield from [{"role": role, "kind": role, "text": shown}] if shown or role == "user" else []
            case "tool_use":
                for block in group:
                    names[block.get("id")] = str(block.get("name", ""))
                    yield _call(block)
            case "tool_result":
                for block in group:
                    call_id, is_error = block.get("tool_use_id"), bool(block.get("is_error"))
                    yield _result(names.get(call_id), call_id, text_of(block.get("content")), is_error=is_error)


def _call(block: Block) -> Row:
    arguments = block.get("input")
    return {
        "role": "assistant",
        "kind": "tool_call",
        "name": str(block.get("name", "")),
        "id": block.get("id"),
        "arguments": arguments if isinstance(arguments, Mapping) else None,
    }


def _result(name: str | None, call_id: object, content: str, *, is_error: bool) -> Row:
    return {
        "role": "tool",
        "kind": "tool_result",
        "name": name,
        "id": call_id,
        "content": content,
        "is_error": is_error,
    }


def newest_first(found: Iterable[ListedRun]) -> list[ListedRun]:
    """Return the runs in the order of a listing."""
    return sorted(found, key=lambda run: (run.started_at, run.run_id), reverse=True)


def first_trees(found: Sequence[ListedRun], limit: int | None) -> list[ListedRun]:
    """Return the first runs without a listed parent, with all their descendants, newest first.

    limit: maximum number, descendants not counted.
    """
    chosen: list[ListedRun] = []
    trees = 0
    for run, depth in as_tree(found):
        trees += depth == 0
        if limit is not None and trees > limit:
            break
        chosen.append(run)
    return newest_first(chosen)


def as_tree(found: Sequence[ListedRun]) -> Iterator[tuple[ListedRun, int]]:
    """Yield each run with its depth in the tree; children follow their parent, oldest first.

    found: newest first.
    """
    listed = {one.run_id for one in found}
    children: dict[str | None, list[ListedRun]] = {}
    for one in found:
        children.setdefault(one.parent_id if one.parent_id in listed else None, []).append(one)
    stack = [(one, 0) for one in reversed(children.pop(None, []))]
    while stack:
        one, depth = stack.pop()
        yield one, depth
        stack += [(child, depth + 1) for child in children.pop(one.run_id, ())]


MARK = "-fork"
"""Suffix of the id of each fork, so that a listing need not read the origin of every run."""


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Counts and sums over the items of a batch."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Items of the newest call by status, in the order of `ITEM_STATUSES`; statuses without items are missing."""
    earlier: int = 0
    """Items that only earlier calls had."""
    runs: int = 0
    """Number of stored runs, including earlier calls; the following fields count the same runs."""
    cost_usd: float = 0.0
    """Known cost [USD]."""
    unknown_costs: int = 0
    """Number of runs with unknown cost."""
    tool_calls: int = 0
    worked_s: float = 0.0
    """Working time of all runs together [s]."""
    started_at: float | None = None
    """Start of the first run; None without runs [seconds since 1970]."""
    ended_at: float | None = None
    """Latest end of a run; None if none has ended [seconds since 1970]."""

    @property
    def items(self) -> int:
        """Number of items of the newest call."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class ItemResult:
    """An item with its status and result."""

    number: int
    """Place in the newest call, from 1."""
    run_id: str
    input: Any
    """A JSON value."""
    question: str
    status: str
    """One of `ITEM_STATUSES`."""
    outcome: Mapping[str, Any] | None
    """Outcome of its run, as `--json` prints it; None while there is none."""
    error: str | None
    """Error of the item itself, e.g. why it has no run."""
    tool_calls: int = 0
    cost_usd: float | None = None
    """Cost so far; None without a run, or if a price is unknown [USD]."""
    seconds: float | None = None
    """Working time of the run; None if it is unknown [s]."""
    started_at: float | None = None
    """Start of the run; None without one [seconds since 1970]."""
