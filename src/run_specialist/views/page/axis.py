"""The time of a run: what passed while it worked, without what passed between its end and its resumption."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from run_specialist.store.stored import StoredEvent, StoredRun


@dataclass(frozen=True, slots=True)
class ActiveSpan:
    """One going of the run, from its start or a resumption to where it stopped."""

    begin: float
    """[seconds since 1970]."""
    end: float
    """Likewise."""
    offset: float
    """How long the run had worked before it [s]."""
    pause: float
    """How long it had stood still before it [s]."""
    resumed: Mapping[str, Any]
    """What was told at the resumption; empty for the first stretch."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Where each moment of a run stands in its working time."""

    stretches: tuple[ActiveSpan, ...]

    def __call__(self, at: float) -> float:
        """Return how long the run had worked at a moment [s].

        at: [seconds since 1970].
        """
        begun = [one for one in self.stretches if one.begin <= at]
        stretch = begun[-1] if begun else self.stretches[0]
        return stretch.offset + min(max(at - stretch.begin, 0), stretch.end - stretch.begin)

    @property
    def seconds(self) -> float:
        """How long the run has worked in all."""
        last = self.stretches[-1]
        return last.offset + last.end - last.begin

    @property
    def resumptions(self) -> tuple[ActiveSpan, ...]:
        """All stretches but the first."""
        return self.stretches[1:]


def axis(run: StoredRun) -> Axis:
    """Return the working time of a run; of one without an end it goes to the last thing that is known."""
    known = [moment for kept in (run.events, run.turns, run.calls) for moment in (one.at for one in kept)]
    begins = [(run.started_at, {}), *((event.at, event.body) for event in _resumptions(run.events))]
    stretches: list[ActiveSpan] = []
    for number, (begin, resumed) in enumerate(begins):
        is_last = number + 1 == len(begins)
        until = (run.ended_at or float("inf")) if is_last else begins[number + 1][0]
        end = max((at for at in known if begin <= at < until), default=begin)
        if is_last and run.ended_at is not None:
            end = max(end, run.ended_at)
        offset, pause = 0.0, 0.0
        if stretches:
            before = stretches[-1]
            offset, pause = before.offset + before.end - before.begin, max(begin - before.end, 0)
        stretches.append(ActiveSpan(begin, end, offset, pause, resumed))
    return Axis(tuple(stretches))


def _resumptions(events: tuple[StoredEvent, ...]) -> Iterator[StoredEvent]:
    """Yield what begins each further going: one more `started`, which has the limits, and `resumed`, as one."""
    waiting: StoredEvent | None = None
    for number, event in enumerate(events):
        if number and event.body.get("event") in {"started", "resumed"}:
            waiting = StoredEvent(event.number, waiting.at, {**waiting.body, **event.body}) if waiting else event
        elif waiting:
            yield waiting
            waiting = None
    if waiting:
        yield waiting
