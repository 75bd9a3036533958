"""One item of a batch: its input, its run and how it ended, and the counts and events of all items."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from run_specialist.errors import RunSpecialistError
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome

if TYPE_CHECKING:
    from run_specialist.loop.run import EndedRun, Run

Input = str | Mapping[str, Any]
"""A text, or fields by name, with JSON values."""


@dataclass(frozen=True, slots=True)
class InputRecord:
    """An input as it was read."""

    input: Input
    where: str = ""
    """Place of the input, `file:line` or the path of a file; empty for an input from a program."""
    content: str = ""
    """Digest of a file that the input names; empty for none."""


@dataclass(frozen=True, slots=True)
class Item:
    """One input, and the question about it."""

    number: int
    """Its position in the batch, from 1."""
    input: Input
    question: str
    key: str
    """16 hexadecimal digits that stay the same when the batch is called again; see `questions.asked`."""


State = Literal["answered", "landed", "partial", "failed", "aborted", "not run", "at work elsewhere"]


@dataclass(frozen=True, slots=True)
class Done:
    """An item and its outcome, or the reason why it has no outcome."""

    item: Item
    run_id: str
    outcome: Outcome | None = None
    """None if the item has no run."""
    error: str | None = None
    """Why there is no complete answer, in one line."""
    without_run: State = "not run"
    """The state of an item without an outcome."""
    is_earlier: bool = False
    """Whether the outcome is from an earlier call, so that nothing was spent now."""

    @property
    def number(self) -> int:
        """The position of the item in the batch, from 1."""
        return self.item.number

    @property
    def input(self) -> Any:  # noqa: ANN401 - JSON values
        """The input of the item."""
        return self.item.input

    @property
    def state(self) -> State:
        """The status of the outcome, or why there is none."""
        return self.without_run if self.outcome is None else self.outcome.status

    def as_row(self) -> dict[str, Any]:
        """Return the row of an answer file as JSON values."""
        return {
            "number": self.number,
            "input": self.input,
            "outcome": None if self.outcome is None else self.outcome.as_json(),
            "state": self.state,
            "run_id": self.run_id,
            "error": self.error,
        }


NO_ANSWER = "no_answer"
"""Kind of failure if the model ended the run without an answer."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of items of a batch in each state."""

    answered: int = 0
    landed: int = 0
    partial: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    """By `Outcome.error_kind`, `usage` for items without a run, or `no_answer`."""
    aborted: int = 0
    at_work_elsewhere: int = 0
    """Items in progress in another process."""
    not_run: int = 0
    """Items without an outcome when the batch ended; a repeated call begins or resumes them. 0 until the end."""
    under_way: int = 0
    earlier: int = 0
    """Ended items whose outcome is from an earlier call."""
    total: int | None = None
    """None while the number of items is not known."""

    @property
    def has_answer(self) -> int:
        """Items with an answer, even a partial one."""
        return self.answered + self.landed + self.partial

    @property
    def done(self) -> int:
        """Items that have ended."""
        return self.has_answer + sum(self.failed.values()) + self.aborted + self.at_work_elsewhere


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """Base of the events of a batch."""

    event: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """Return the event as JSON values, its name first."""
        return {"event": self.event, **asdict(self)}


@dataclass(frozen=True, slots=True)
class BatchStarted(BatchEvent):
    """The batch has started; always its first event."""

    event = "batch_started"
    batch: str
    """Id of the batch."""
    total: int | None
    """Number of items; None if it is not known yet."""
    at_once: int
    cost_limit: float | None


@dataclass(frozen=True, slots=True)
class ItemStarted(BatchEvent):
    """The run of an item begins, or is resumed."""

    event = "item_started"
    number: int
    run_id: str


@dataclass(frozen=True, slots=True)
class ItemEnded(BatchEvent):
    """An item has ended."""

    event = "item_ended"
    number: int
    run_id: str
    state: str
    cost_usd: float | None
    """Cost of its whole run [USD]; None without a run, or if the price is not known."""
    error_kind: str | None
    is_earlier: bool
    """Whether the outcome is that of an earlier call."""


@dataclass(frozen=True, slots=True)
class BatchPaused(BatchEvent):
    """No items begin for a while, because the endpoint fails."""

    event = "batch_paused"
    kind: str
    reason: str
    seconds: float
    """Time until one item is tried [s]."""


@dataclass(frozen=True, slots=True)
class BatchResumed(BatchEvent):
    """The endpoint answers again."""

    event = "batch_resumed"
    kind: str


@dataclass(frozen=True, slots=True)
class BatchEnded(BatchEvent):
    """The batch has ended; always its last event."""

    event = "batch_ended"
    counts: Counts
    cost_usd: float
    reason: str | None
    """Why it ended before all items were done; None if it did not."""

    def as_json(self) -> dict[str, Any]:
        """Return the event as JSON values, with the number of items done."""
        values = super(BatchEnded, self).as_json()
        values["counts"]["done"] = self.counts.done
        return values


BatchListener = Callable[[BatchEvent], None]
RunListener = Callable[[int, Event], None]
"""Called with the number of an item and an event of its run."""


Lend = Callable[[float | None], Awaitable[float | None]]
"""Return the amount that a run may spend from now on, given the remainder of its own limit; None = no limit [USD].

Called at most once per run, before it is stored or sends anything. Raises NotAffordable.
"""


class NotAffordable(RunSpecialistError):
    """The cost limit of the batch leaves too little for another item at the moment."""


class LimitReached(NotAffordable):
    """The cost limit leaves too little, and no running item can return a part of it, so the batch ends."""


class ItemRuns(Protocol):
    """The runs of all items; the id of each run is derived from its item."""

    async def check(self) -> None:
        """Raise UsageError if no run can begin, for any item."""

    async def take_up(self, item: Item, run_id: str, lend: Lend, *, is_new: bool) -> "Run | EndedRun":
        """Return the run of an item, ready to be started: begun, resumed, or with its earlier outcome.

        is_new: no run with this id was stored a moment ago.
        Raises AtWork if another process works on it, NotAffordable, or another RunSpecialistError.
        """

    async def ended(self, run_id: str, *, however: bool = False) -> Outcome | None:
        """Return the outcome of a run that will not be resumed; None for any other run.

        however: return any outcome, also of a run that the next call resumes.
        """
