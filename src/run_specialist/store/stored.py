"""Frozen dataclasses of a stored run, for reports, listings and resuming."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from run_specialist.record.blocks import Block
from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Message, Reply, Stop, ToolCall, Usage
from run_specialist.record.outcome import Child


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in a listing."""

    run_id: str
    parent_id: str | None
    specialist: str
    model: str
    question: str
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
class StoredTurn:
    """One reply of the model, with data of its request."""

    number: int
    at: float
    """Time of receipt [seconds since 1970]."""
    seconds: float
    choice: str
    landing: bool
    stop: str
    reason: str
    blocks: tuple[Block, ...]
    usage: Usage
    cost_usd: float | None
    more_room_helps: bool = True
    landing_instruction: str | None = None
    """The instruction at the end of the request; None if there is none."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The reply's tool calls in order; the first ones were executed, the rest skipped."""
        return self.reply.calls

    @property
    def reply(self) -> Reply:
        """The reply as the loop uses it."""
        return Reply(Stop(self.stop), self.blocks, self.usage, self.reason, more_room_helps=self.more_room_helps)


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One executed tool call."""

    number: int
    """Number within the run, from 1; calls of a turn have consecutive numbers in call order."""
    turn: int
    at: float
    """Time of return [seconds since 1970]."""
    seconds: float
    call: ToolCall
    whole: str
    """Full output, redacted."""
    characters: int
    """Maximum length of the output in the tool result [characters]."""
    is_error: bool
    note: str
    repeated: bool

    @property
    def text(self) -> str:
        """The part of the output that the tool result may contain."""
        return self.whole[: self.characters]

    @property
    def truncated(self) -> bool:
        """True if `text` is not the full output."""
        return self.characters < len(self.whole)


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
    turns: tuple[StoredTurn, ...]
    calls: tuple[StoredCall, ...]
    """Executed tool calls in call order."""
    messages: tuple[StoredMessage, ...]
    """Messages ordered by part and place."""
    events: tuple[StoredEvent, ...]
    children: tuple[Child, ...] = ()
    """Child runs, with any outcome or none."""

    @property
    def own_turns(self) -> tuple[StoredTurn, ...]:
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
    def pending(self) -> StoredTurn | None:
        """The reply that was received but not processed, because the process ended."""
        done = self.snapshot.turns if self.snapshot else 0
        return next((turn for turn in self.turns if turn.number > done), None)
