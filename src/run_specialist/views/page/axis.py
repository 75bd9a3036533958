"""The time axis of a run: working time, without the pauses before resumptions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from run_specialist.store.stored import StoredEvent, StoredRun


@dataclass(frozen=True, slots=True)
class ActiveSpan:
    """A period in which the run was active: from its start or a resumption until it stopped."""

    begin: float
    """[seconds since 1970]."""
    end: float
    """[seconds since 1970]."""
    offset: float
    """Working time before this span [s]."""
    pause: float
    """Pause before this span [s]."""
    resumed: Mapping[str, Any]
    """Body of the `resumed` event; empty for the first span."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps points in time to the working time of a run."""

    spans: tuple[ActiveSpan, ...]

    def __call__(self, at: float) -> float:
        """Return the working time at a point in time [s].

        at: [seconds since 1970].
        """
        begun = [one for one in self.spans if one.begin <= at]
        span = begun[-1] if begun else self.spans[0]
        return span.offset + min(max(at - span.begin, 0), span.end - span.begin)

    @property
    def seconds(self) -> float:
        """Total working time [s]."""
        last = self.spans[-1]
        return last.offset + last.end - last.begin

    @property
    def resumptions(self) -> tuple[ActiveSpan, ...]:
        """All spans except the first."""
        return self.spans[1:]


def axis(run: StoredRun) -> Axis:
    """Return the time axis of a run; without an end it extends to the last record."""
    known = [one.at for records in (run.events, run.turns, run.calls) for one in records]
    begins = [(run.started_at, {}), *((event.at, event.body) for event in _resumptions(run.events))]
    spans: list[ActiveSpan] = []
    for number, (begin, resumed) in enumerate(begins):
        is_last = number + 1 == len(begins)
        until = (run.ended_at or float("inf")) if is_last else begins[number + 1][0]
        end = max((at for at in known if begin <= at < until), default=begin)
        if is_last and run.ended_at is not None:
            end = max(end, run.ended_at)
        offset, pause = 0.0, 0.0
        if spans:
            before = spans[-1]
            offset, pause = before.offset + before.end - before.begin, max(begin - before.end, 0)
        spans.append(ActiveSpan(begin, end, offset, pause, resumed))
    return Axis(tuple(spans))


def _resumptions(events: tuple[StoredEvent, ...]) -> Iterator[StoredEvent]:
    """Yield one event per resumption, merged from a further `started`, which has the limits, and `resumed`."""
    waiting: StoredEvent | None = None
    for number, event in enumerate(events):
        if number and event.body.get("event") in {"started", "resumed"}:
            waiting = StoredEvent(event.number, waiting.at, {**waiting.body, **event.body}) if waiting else event
        elif waiting:
            yield waiting
            waiting = None
    if waiting:
        yield waiting
