"""Records that a run writes to its journal, from which it can be read and resumed after a crash.

A run writes records in order without waiting, except at checkpoints, where it waits until they are stored.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from run_specialist.record.events import Event
from run_specialist.record.messages import Message, Reply, ToolCall, Usage
from run_specialist.record.outcome import AskedModel, Child, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Base of all records."""

    at: float = field(default_factory=time.time)
    """Time of the record [seconds since 1970]."""


@dataclass(frozen=True, slots=True)
class Opened(Record):
    """A run was started or resumed; the first record. A resumed run keeps its stored question and start time."""

    run_id: str
    specialist: str
    model: str
    question: str
    frozen: Mapping[str, Any]
    """Everything needed to resume the run, as JSON values: system prompt, tools, settings, origin."""
    parent_id: str | None = None
    """The run whose tool call started this one; None for a run without a parent."""


@dataclass(frozen=True, slots=True)
class EventLogged(Record):
    """An event that listeners received."""

    event: Event


@dataclass(frozen=True, slots=True)
class Received(Record):
    """A reply arrived and was charged; later records show how the run acted on it."""

    number: int
    """Number of the request, from 1."""
    choice: str
    """The tool choice of the request."""
    landing: bool
    """Whether the request was part of the landing."""
    reply: Reply
    cost_usd: float | None
    seconds: float
    """Duration of the request."""
    landing_instruction: str | None = None
    """The instruction at the end of the request; None if it had none."""


@dataclass(frozen=True, slots=True)
class Returned(Record):
    """A tool call returned."""

    number: int
    """Number in the run, from 1, in call order; calls may return in another order."""
    turn: int
    call: ToolCall
    whole: str
    """The complete output, redacted."""
    characters: int
    """Length of the part that the result shows; the rest was cut."""
    is_error: bool
    note: str
    """A notice about the output, e.g. how to read on."""
    repeated: bool
    """True if the result is that of an earlier identical call."""
    seconds: float

    @property
    def text(self) -> str:
        """The part of the output that the tool result may contain."""
        return self.whole[: self.characters]

    @property
    def truncated(self) -> bool:
        """True if `text` is not the complete output."""
        return self.characters < len(self.whole)


@dataclass(frozen=True, slots=True)
class FileChanging(Record):
    """A change of a file, so that it can be undone: of `edit` and `write` stored before it is made, of commands after.

    The state of a file is the SHA-256 of its content in hexadecimal. Changes of commands have the mode before it, in
    octal, as in `100644 9f86...`, and for a file that is too large its size and time in place of the digest.
    """

    change_id: str
    """Unique within the run."""
    path: str
    """The file, relative to the root of the run."""
    before: str | None
    """State before; None if the file did not exist."""
    after: str | None
    """State after; None if it was removed."""
    content: str | None
    """Content before, of a symlink its target, with bytes that are no UTF-8 as surrogates; None if the file did not
    exist, or its content was not kept."""
    temporary: str
    """Name of the temporary file beside it, which a killed process leaves behind."""
    folders: int = 0
    """Number of parent folders that do not exist yet and will be created."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens and cost of some requests."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    """None if the price of any request is unknown."""

    def plus(self, usage: Usage, cost: float | None) -> "Spending":
        """Return the spending with one more request.

        cost: cost of the request [USD]; None = unknown.
        """
        total = None if cost is None or self.cost_usd is None else self.cost_usd + cost
        return Spending(self.usage + usage, total)


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """The spending and the state of a run; together with its messages and calls, enough to resume it."""

    used: Mapping[str, float]
    """Amount spent, by kind."""
    total: Spending = field(default_factory=Spending)
    largest_input: int = 0
    largest_request: int = 0
    dearest_request: float = 0.0
    calls: int = 0
    """Number of tool calls started."""
    skipped: int = 0
    history_tokens: int = 0
    """Size of the transcript without its tail."""
    last_text: str = ""
    """The newest text of the model."""
    warnings: tuple[str, ...] = ()
    children: tuple[Child, ...] = ()
    """The child runs whose spending is included."""
    returned: tuple[str, ...] = ()
    """Reasons for which answers were returned to the model; each occurs at most once per run."""
    returned_answer: Mapping[str, Any] | None = None
    """The newest returned answer, as the input of `respond`."""
    models: tuple[AskedModel, ...] = ()
    """The models that were asked so far, in order; empty before the first turn."""

    @property
    def turns(self) -> int:
        """Number of replies that were acted upon."""
        return int(self.used.get("turns", 0))

    def missing_children(self, children: Iterable[Child]) -> tuple[Child, ...]:
        """Return the children whose spending is not included."""
        included = {child.run_id for child in self.children}
        return tuple(child for child in children if child.run_id not in included)


@dataclass(frozen=True, slots=True)
class Checkpointed(Record):
    """The state of a run before a request or at its end: the messages since the last checkpoint, and the spending."""

    part: int
    """Number of times the transcript was summarized; each summary begins a new part."""
    place: int
    """Index of the first of these messages in its part, from 0; stored messages from there on are replaced."""
    messages: tuple[Message, ...]
    copies: int
    """Number of messages at the beginning of the part that a summary made or copied from the previous part."""
    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class Ended(Record):
    """A run has ended with an outcome."""

    outcome: Outcome
    checkpointed: Checkpointed | None = None
    """The final state; stored with the outcome, because a crash between the two would leave the run unfinished."""


class TakenOver(Exception):
    """Another process has taken over the run; the text says, in one line, since when nothing was stored here."""


class Journal(Protocol):
    """Stores the records of a run."""

    @property
    def outage(self) -> str | None:
        """The error, in one line, while the store is unreachable and retried; None while it works."""

    @property
    def has_begun(self) -> bool:
        """Whether the first record of the run is stored already, so that it is not written again."""

    def write(self, record: Record) -> None:
        """Accept a record; never blocks and never raises."""

    async def committed(self) -> str | None:
        """Wait until all records are stored; if that fails, return the reason in one line, once.

        Raises TakenOver, once, if another process has taken over the run.
        """

    async def has_stored(self) -> bool:
        """Wait until all records are stored; return whether they are. The reason for a failure stays available."""
