"""The interface through which a batch runs its items; `api` implements it with a `Runner`."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from run_specialist.batch.item import Item
from run_specialist.errors import RunSpecialistError
from run_specialist.record.events import Listener
from run_specialist.record.outcome import Outcome

Lend = Callable[[float | None], Awaitable[float | None]]
"""Return the amount that a run may spend from now on, given the remainder of its own limit; None = no limit [USD].

Called at most once per run, before it is stored or sends anything. Raises NotAffordable.
"""


class NotAffordable(RunSpecialistError):
    """The cost limit of the batch leaves too little for another item at the moment."""


class LimitReached(NotAffordable):
    """The cost limit leaves too little, and no running item can return a part of it, so the batch ends."""


class ItemRun(Protocol):
    """The run of one item."""

    @property
    def run_id(self) -> str:
        """The id in the store and in the outcome."""
        ...

    @property
    def ended(self) -> Outcome | None:
        """The outcome, if the run had ended before it was taken up."""
        ...

    @property
    def is_kept(self) -> bool:
        """Whether all records of the run are stored."""
        ...

    @property
    def cost_before(self) -> float:
        """Cost of the run before it was taken up [USD]."""
        ...

    async def outcome(self) -> Outcome:
        """Work until there is an outcome."""
        ...

    def abort(self, *, after_turn: bool = False) -> None:
        """Stop as soon as possible, or after the current turn is complete and stored."""
        ...

    def listen(self, listener: Listener) -> None:
        """Call a listener with each event from now on."""
        ...


class ItemRuns(Protocol):
    """The runs of all items; the id of each run is derived from its item."""

    async def check(self) -> None:
        """Raise UsageError if no run can begin, for any item."""
        ...

    async def take_up(self, item: Item, run_id: str, lend: Lend, *, is_new: bool) -> ItemRun:
        """Return the run of an item, ready to be started: begun, resumed, or with its earlier outcome.

        is_new: no run with this id was stored a moment ago.
        Raises AtWork if another process works on it, NotAffordable, or another RunSpecialistError.
        """
        ...

    async def ended(self, run_id: str, *, however: bool = False) -> Outcome | None:
        """Return the outcome of a run that will not be resumed; None for any other run.

        however: return any outcome, also of a run that the next call resumes.
        """
        ...
