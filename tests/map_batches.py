"""Batches that are only looked at: counts and items as a test wants them."""

from dataclasses import dataclass, field
from typing import Any

from run_specialist.batch.item import Counts, Done, Item
from run_specialist.batch.limits import Pause
from run_specialist.record.outcome import Outcome, ToolCalls
from tests.unit.record.outcomes import outcome as any_outcome


@dataclass
class LookedAt:
    """What the views of `map` read of a batch."""

    counts: Counts = field(default_factory=Counts)
    cost_limit: float | None = None
    paused: Pause | None = None
    ended_because: str | None = None
    cost_usd: float = 0.0
    problem: str | None = None
    unstored: int = 0
    id: str = "b3f9c2d1e"
    under_way: tuple[Item, ...] = tuple(
        Item(number, {"path": f"docs/limits-{number}.md"}, "", "") for number in (38, 39)
    )
    stops: list[bool] = field(default_factory=list)

    def stop(self, *, now: bool = False) -> None:
        """Note that the batch was stopped."""
        self.stops.append(now)


def item(number: int = 1, given: Any = "owls", question: str = "What about owls?") -> Item:
    """Return an item."""
    return Item(number, given, question, f"{number:016x}")


def outcome(status: str = "answered", *, cost: float | None = 0.02, **more: Any) -> Outcome:
    """Return an outcome."""
    given = {"specialist": "finder", "answer": "Mice.", "tool_calls": ToolCalls(5, 30, 0, 0), "duration_s": 12.4}
    return any_outcome(**(given | {"status": status, "cost_usd": cost} | more))


def done(number: int = 1, status: str = "answered", **more: Any) -> Done:
    """Return an item that has ended with an outcome."""
    error = more.pop("error", None)
    is_earlier = more.pop("is_earlier", False)
    given = more.pop("given", f"docs/{number}.md")
    return Done(item(number, given), f"b3f9c2d1e-{number}", outcome(status, **more), error, is_earlier=is_earlier)
