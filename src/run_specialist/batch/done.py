"""The end of one item of a batch."""

from dataclasses import dataclass
from typing import Any, Literal

from run_specialist.batch.item import Item
from run_specialist.record.outcome import Outcome

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
