"""A run as it was kept: frozen values, which the views and a resumption are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Block, Message, Reply, Stop, ToolCall, Usage
from run_specialist.record.outcome import Child


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing shows of a run."""

    run_id: str
    parent_id: str | None
    specialist: str
    model: str
    question: str
    status: str
    """That of its outcome; `running` while its process lives, `interrupted` when that has died."""
    started_at: float
    """[seconds since 1970]."""
    ended_at: float | None
    tool_calls: int
    """Spent so far."""
    cost_usd: float | None
    """None when a price was unknown."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """What tuning wants to know of a run that is over."""

    run_id: str
    started_at: float
    outcome: Mapping[str, Any]
    """As `--json` prints it."""
    calls: int
    """Tool calls that were run."""
    repeated: int
    """Those of them that were answered from the record of an identical call."""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One reply of the model, with the request that it answers."""

    number: int
    at: float
    """When it had come [seconds since 1970]."""
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
    """That ended the request; None if it had none."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it, in order; the first of them were run, the others skipped."""
        return self.reply.calls

    @property
    def reply(self) -> Reply:
        """The reply as the loop takes it."""
        return Reply(Stop(self.stop), self.blocks, self.usage, self.reason, more_room_helps=self.more_room_helps)


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One tool call that was run."""

    number: int
    """Counted from 1 over the run; those of a turn follow each other in call order."""
    turn: int
    at: float
    """When it had returned [seconds since 1970]."""
    seconds: float
    call: ToolCall
    whole: str
    """All that it returned, redacted."""
    characters: int
    """How much of that a result may hold."""
    is_error: bool
    note: str
    repeated: bool

    @property
    def text(self) -> str:
        """The part of the output that a result may hold."""
        return self.whole[: self.characters]

    @property
    def truncated(self) -> bool:
        """True when that is not all."""
        return self.characters < len(self.whole)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of the transcript."""

    part: int
    """How often the transcript had been summarised."""
    place: int
    """Where it stands in its part, from 0."""
    copied: bool
    """True when a summary took it over, or made it."""
    message: Message


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event as `--events` prints it."""

    number: int
    at: float
    """[seconds since 1970]."""
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredRun(Listed):
    """All that was kept of a run."""

    frozen: Mapping[str, Any]
    """See `Opened.frozen`."""
    standing: RunSnapshot | None
    """As it was before the newest request, or at the end; None where nothing had been asked yet."""
    outcome: Mapping[str, Any] | None
    """As `--json` prints it; None while there is none."""
    turns: tuple[StoredTurn, ...]
    calls: tuple[StoredCall, ...]
    """In call order."""
    messages: tuple[StoredMessage, ...]
    """By part and place."""
    events: tuple[StoredEvent, ...]
    children: tuple[Child, ...] = ()
    """The runs that it asked, whatever became of them."""

    @property
    def transcript(self) -> tuple[Message, ...]:
        """The messages to go on from: those of the newest part."""
        newest = max((one.part for one in self.messages), default=0)
        return tuple(one.message for one in self.messages if one.part == newest)

    @property
    def pending(self) -> StoredTurn | None:
        """The reply that came in and was not acted upon, because the process ended."""
        done = self.standing.turns if self.standing else 0
        return next((turn for turn in self.turns if turn.number > done), None)
