"""Events of a run, as frozen values; listeners receive them in order.

`--events` prints each as a JSON object with its fields and its name as `event`.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, ClassVar, Literal, Self

from run_specialist.budget import Kind, Limit, Rung
from run_specialist.errors import ProviderErrorKind
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import FileChange, FileChangeKind, Outcome


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    event: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """Return the event as JSON values, its name first."""
        return {"event": self.event, **{name: _copied(getattr(self, name)) for name in self.__dataclass_fields__}}


def _copied(value: Any) -> Any:  # noqa: ANN401 - the value of any field
    """Return a value that a listener may change."""
    # Most are text or numbers, for which `asdict` would take ten times as long.
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Event | Outcome):
        return value.as_json()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else deepcopy(value)


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The run has started; always the first event."""

    event = "started"
    run_id: str
    specialist: str
    model: str
    question: str
    tools: tuple[str, ...]
    limits: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """The run was resumed after an interruption or its end; precedes its next request."""

    event = "resumed"
    run_id: str
    used: Mapping[str, float]
    """Spending before the run was resumed, by kind."""
    note: str
    """Text for the model about the resumption; empty if it needs none."""
    tokens: int = 0
    """Tokens of all earlier requests, including those of children."""
    cost_usd: float | None = None
    """Cost of the earlier requests [USD]; None if the price of any is unknown."""


@dataclass(frozen=True, slots=True)
class Forked(Event):
    """The run begins with the first turns of another run; precedes its first request."""

    event = "forked"
    run_id: str
    source: str
    """Id of the other run."""
    at: int
    """Number of copied turns."""
    used: Mapping[str, float]
    """Spending of the copied turns, by kind of limit."""
    note: str
    """Text for the model after these turns; empty if it needs none."""


@dataclass(frozen=True, slots=True)
class Requested(Event):
    """A request is sent to the model."""

    event = "request"
    turn: int
    """Number of the request, from 1; a retry counts as a new request."""
    choice: str


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """The endpoint cannot answer now; the same request is sent again after a wait, which starts with this event.

    Pieces of a reply that were streamed before are invalid: the reply starts again.
    """

    event = "retrying"
    status: int | None
    """The HTTP status of the failure; None if the connection failed."""
    seconds: float
    """Duration of the wait [s]."""
    attempt: int
    """Number of the retry, from 1."""
    reason: str
    """The failure in one line."""


WaitPhase = Literal["started", "finished"]


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """A request waits because the endpoint accepts no more requests at the moment; reported after one second.

    A second event, or the end of the run, ends the wait.
    """

    event = "waiting"
    phase: WaitPhase
    seconds: float | None
    """Expected duration of the wait, None if it is unknown; in the second event the actual duration [s]."""
    reason: str
    """Why the request waits, in one line."""


@dataclass(frozen=True, slots=True)
class ModelChanged(Event):
    """The model cannot answer, and the run continues with the next fallback model; precedes its first request."""

    event = "model_changed"
    turn: int
    """Number of the first turn requested from the new model."""
    before: str
    """The id of the model that failed."""
    model: str
    """The id of the new model."""
    reason: str
    """The failure in one line."""
    kind: ProviderErrorKind
    """Kind of the failure."""
    left_out: str
    """Parts of the transcript that are not sent to the new model, because only the first model accepts them."""
    cold_tokens: int | None
    """Estimated input that the new model reads without a cache [tokens]; None if nothing was sent before."""
    cold_cost_usd: float | None
    """Price of this input [USD]; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Replied(Event):
    """A reply has arrived."""

    event = "reply"
    turn: int
    stop: str
    reason: str
    text: str
    usage: Usage
    cost_usd: float | None
    """Cost of this request [USD]; None if the price is unknown."""


CallPhase = Literal["started", "finished", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Called(Event):
    """A tool call has started, finished, failed or been skipped."""

    event = "tool_call"
    phase: CallPhase
    id: str
    name: str
    arguments: Mapping[str, Any] | None
    characters: int = 0
    """Length of the raw result."""
    duration_s: float = 0.0
    text: str = ""
    """The error, or the reason why the call was skipped; empty otherwise."""


@dataclass(frozen=True, slots=True)
class FileChanged(Event):
    """A tool has changed a file; precedes the end of its call."""

    event = "file_changed"
    call_id: str
    """The call of the tool."""
    path: str
    """The file, relative to the root."""
    diff: str
    """The change as a unified diff; the last line says if the diff was shortened."""
    added: int | None
    """Lines added; None if they were not counted, as in a binary or very large file."""
    removed: int | None
    """Lines removed; None as above."""
    is_new: bool = False
    """Whether the file did not exist before."""
    dry_run: bool = False
    """Whether the change exists only in the patch of a dry run, not on disk."""
    change: FileChangeKind = "changed"
    """Whether the file was created, changed or removed."""
    undoable: bool = True
    """Whether `specialists undo` can take it back: the run is stored, and the content before was kept."""

    @property
    def of_file(self) -> FileChange:
        """The change as the outcome lists it."""
        return FileChange(self.path, self.change, self.added, self.removed, self.undoable)


@dataclass(frozen=True, slots=True)
class BudgetSpent(Event):
    """The state of the budget after a call."""

    event = "budget"
    kind: str
    """Kind of the limit closest to exhaustion, to which the numbers belong."""
    limit: float | None
    used: float
    remaining: float | None
    phase: str

    @classmethod
    def of(cls, limit: Limit) -> Self:
        """Return the event for the state of one limit."""
        return cls(limit.kind.value, limit.limit, limit.used, limit.remaining, limit.phase.value)


@dataclass(frozen=True, slots=True)
class Landed(Event):
    """A limit is reached, and the landing tries its next rung."""

    event = "landing"
    reason: Kind
    how: Rung


@dataclass(frozen=True, slots=True)
class Summarized(Event):
    """The history grew too long and was summarized."""

    event = "summarized"
    summary: str
    archived: int
    """Outputs removed from the history; the archive keeps them in full."""
    tokens_before: int
    """Estimated size of the next request before summarizing."""
    tokens_after: int
    usage: Usage
    """Usage of the requests for the summary."""
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Steered(Event):
    """The user has added a text while the run works; precedes the request that carries it."""

    event = "steered"
    turn: int
    """Number of the turn that is requested with it."""
    text: str


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something is wrong, but the run continues."""

    event = "warning"
    text: str


@dataclass(frozen=True, slots=True)
class ChildTold(Event):
    """An event of a child run; it is stored with the child, not with the parent."""

    event = "child"
    run_id: str
    """Id of the child run."""
    specialist: str
    told: Event
    """The event of the child run."""


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """The run has ended; always the last event, with the outcome."""

    event = "finished"
    outcome: Outcome


Listener = Callable[[Event], None]
"""Called with each event as it happens."""
