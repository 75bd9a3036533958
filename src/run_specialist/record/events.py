"""What happens in a run, as frozen values; whoever watches gets them in order.

Each is a JSON object under `--events`: its fields, and `event` for its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self

from run_specialist.budget.budget import Kind, Limit
from run_specialist.budget.ladder import Rung
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    event: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """Return the event as plain JSON values, its name first."""
        return {"event": self.event, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The run begins; always the first event."""

    event = "started"
    run_id: str
    specialist: str
    model: str
    question: str
    tools: tuple[str, ...]
    limits: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """The run goes on after it was cut off, or had ended; stands before its first request."""

    event = "resumed"
    run_id: str
    used: Mapping[str, float]
    """What was spent before, of each kind."""
    note: str
    """What is said to the model about it; empty where nothing has to be said."""


@dataclass(frozen=True, slots=True)
class Requested(Event):
    """A request goes out."""

    event = "request"
    turn: int
    """Counted from 1; a request that is repeated counts anew."""
    choice: str


@dataclass(frozen=True, slots=True)
class Replied(Event):
    """A reply came in."""

    event = "reply"
    turn: int
    stop: str
    reason: str
    text: str
    usage: Usage
    cost_usd: float | None
    """What this request cost; None when the price is unknown."""


CallPhase = Literal["started", "finished", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Called(Event):
    """A tool call starts, finishes, fails or is skipped."""

    event = "tool_call"
    phase: CallPhase
    id: str
    name: str
    arguments: Mapping[str, Any] | None
    characters: int = 0
    """Length of the raw result."""
    duration_s: float = 0.0
    text: str = ""
    """What went wrong, or why it was skipped; empty otherwise."""


@dataclass(frozen=True, slots=True)
class BudgetSpent(Event):
    """The budget after a call."""

    event = "budget"
    kind: str
    """The tightest kind; the figures are its own."""
    limit: float | None
    used: float
    remaining: float | None
    phase: str

    @classmethod
    def of(cls, limit: Limit) -> Self:
        """Tell how one limit stands."""
        return cls(limit.kind.value, limit.limit, limit.used, limit.remaining, limit.phase.value)


@dataclass(frozen=True, slots=True)
class Landed(Event):
    """A limit is reached and a rung of the landing is tried."""

    event = "landing"
    reason: Kind
    how: Rung


@dataclass(frozen=True, slots=True)
class Summarized(Event):
    """The history grew too long and was summarised."""

    event = "summarized"
    summary: str
    archived: int
    """Outputs that left the history; the archive keeps them whole."""
    tokens_before: int
    """Estimate of the next request."""
    tokens_after: int
    usage: Usage
    """Of the requests for the summary."""
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something is not as it should be, and the run goes on."""

    event = "warning"
    text: str


@dataclass(frozen=True, slots=True)
class ChildTold(Event):
    """Something happened in the run of another specialist, asked by this one; it is stored with that run alone."""

    event = "child"
    run_id: str
    """Of the child."""
    specialist: str
    told: Event

    def as_json(self) -> dict[str, Any]:
        """Return the event with the child's own inside."""
        return {"event": self.event, "run_id": self.run_id, "specialist": self.specialist, "told": self.told.as_json()}


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """The run is over; always the last event, and it carries the outcome."""

    event = "finished"
    outcome: Outcome

    def as_json(self) -> dict[str, Any]:
        """Return the event with the outcome as `--json` prints it."""
        return {"event": self.event, "outcome": self.outcome.as_json()}


Listener = Callable[[Event], None]
"""Called with each event as it happens."""
