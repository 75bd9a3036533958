"""What a run puts on record while it works, so that it can be read and gone on from whatever happens to it.

A run writes records in order and never waits for them, but for the places where it asks whether they are kept.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from run_specialist.record.events import Event
from run_specialist.record.messages import Message, Reply, ToolCall, Usage
from run_specialist.record.outcome import Child, Outcome

OnLost = Literal["go_on", "abort"]
"""What a run does when its store can no longer be written: go on unstored, or end before its next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Base of all records."""

    at: float = field(default_factory=time.time)
    """When it happened [seconds since 1970]."""


@dataclass(frozen=True, slots=True)
class Opened(Record):
    """A run begins, or goes on; the first record. What is there already keeps its question and its start."""

    run_id: str
    specialist: str
    model: str
    question: str
    frozen: Mapping[str, Any]
    """All that it takes to go on, in JSON values: system prompt, tools, settings, where it came from."""
    parent_id: str | None = None
    """The run whose tool call this is; None where nobody's."""


@dataclass(frozen=True, slots=True)
class EventLogged(Record):
    """An event was told."""

    event: Event


@dataclass(frozen=True, slots=True)
class Received(Record):
    """A reply came in and was paid for; what becomes of it the next records tell."""

    turn: int
    """Counted from 1."""
    choice: str
    """What the request left to the model."""
    landing: bool
    """Whether it was a landing's request."""
    reply: Reply
    cost_usd: float | None
    seconds: float
    """How long it took."""
    landing_instruction: str | None = None
    """That ended the request; None if it had none."""


@dataclass(frozen=True, slots=True)
class Returned(Record):
    """A tool call was run."""

    number: int
    """Counted from 1 over the whole run, in call order; calls return in any order."""
    turn: int
    call: ToolCall
    whole: str
    """All that it returned, redacted."""
    characters: int
    """How much of that a result may hold; the rest was cut."""
    is_error: bool
    note: str
    """A line of ours that belongs to the output."""
    repeated: bool
    """True when it was answered from the record of an identical call."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens and money of some requests."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    """None once a price was unknown."""

    def plus(self, usage: Usage, cost: float | None) -> "Spending":
        """Return it with one request more.

        cost: None when the price is unknown [USD].
        """
        total = None if cost is None or self.cost_usd is None else self.cost_usd + cost
        return Spending(self.usage + usage, total)


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """What a run has spent and done; with its messages and calls enough to go on."""

    used: Mapping[str, float]
    """Of each kind that can be limited."""
    total: Spending = field(default_factory=Spending)
    largest_input: int = 0
    largest_request: int = 0
    dearest_request: float = 0.0
    calls: int = 0
    """Tool calls that were started."""
    skipped: int = 0
    history_tokens: int = 0
    """Of the transcript without its tail."""
    last_text: str = ""
    """The newest text of the model."""
    warnings: tuple[str, ...] = ()
    children: tuple[Child, ...] = ()
    """The specialists that were asked, and whose spending is in the figures."""

    @property
    def turns(self) -> int:
        """Replies that were acted upon."""
        return int(self.used.get("turns", 0))

    def untold(self, asked: Iterable[Child]) -> tuple[Child, ...]:
        """Return those of the children that are not in the figures."""
        told = {child.run_id for child in self.children}
        return tuple(child for child in asked if child.run_id not in told)


@dataclass(frozen=True, slots=True)
class Checkpointed(Record):
    """How a run stands before it asks again, or ends: what was said since the last time, and what is spent."""

    part: int
    """How often the transcript was summarised: each time it begins anew."""
    place: int
    """Of the first of these messages in its part, from 0; what was kept from there on is replaced."""
    messages: tuple[Message, ...]
    copies: int
    """How many messages at the beginning of the part a summary made, or took over from the part before."""
    standing: RunSnapshot


@dataclass(frozen=True, slots=True)
class Ended(Record):
    """A run has its outcome."""

    outcome: Outcome
    stood: Checkpointed | None = None
    """How it stands then. Kept apart from the outcome, a run that breaks off between would seem to have more to do."""


class TakenOver(Exception):
    """Another process works on the run; its text says in one line from where on nothing was kept here."""


class Journal(Protocol):
    """Where a run puts its records."""

    @property
    def outage(self) -> str | None:
        """Why nothing can be kept at the moment, in one line, while that is tried again; None while it can."""
        ...

    def write(self, record: Record) -> None:
        """Take a record; never waits and never raises."""
        ...

    async def committed(self) -> str | None:
        """Wait until all that was written is kept; where that fails, return why in one line, once.

        Raises TakenOver, once, where it fails because another process works on the run.
        """
        ...
