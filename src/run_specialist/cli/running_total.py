"""Tokens and cost of a run so far, for the live view."""

from dataclasses import dataclass

from run_specialist.record.events import ChildTold, Event, Replied, Resumed, Summarized


@dataclass
class RunningTotal:
    """The sum over all answered requests of a run and its children."""

    tokens: int = 0
    cost_usd: float | None = 0.0
    """None if the price of any request is unknown."""

    def add(self, event: Event) -> None:
        """Add the requests that an event reports."""
        match event:
            case Replied() | Summarized():
                self._add(event.usage.total_tokens, event.cost_usd)
            case Resumed():
                self._add(event.tokens, event.cost_usd)
            case ChildTold():
                self.add(event.told)
            case _:
                pass

    def _add(self, tokens: int, cost_usd: float | None) -> None:
        self.tokens += tokens
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd
