"""Report counts of a fleet as OpenTelemetry metrics, if the program or its environment has set up a meter provider.

A callback of a metric runs in a thread of the exporter, so it only reads the worker's newest counts.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from run_specialist.fleet.control import BatchStatus
from run_specialist.loop.observing.spans import SCOPE
from run_specialist.providers.admission.gate import GATES

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

PREFIX = "run_specialist.fleet"
FINAL = 900.0
"""How long the final counts of a batch are reported after its last job [s]."""
Figure = tuple[float, dict[str, str]]
"""A value and its attributes."""

_log = logging.getLogger(__name__)


def find_meter() -> "Meter | None":
    """Return the meter; None unless the program or the environment has set up a meter provider."""
    if "opentelemetry.metrics" not in sys.modules and not os.environ.get("OTEL_PYTHON_METER_PROVIDER"):
        return None
    try:
        from opentelemetry import metrics  # noqa: PLC0415 - only where it is used

        provider = metrics.get_meter_provider()
        # The provider that waits for another one to be set up has no public name.
        if type(provider).__module__.startswith("opentelemetry.metrics"):
            return None
        from run_specialist.version import release  # noqa: PLC0415 - only needed for metrics

        return provider.get_meter(SCOPE, release())
    except Exception:  # noqa: BLE001 - a provider is foreign code
        _log.debug("there is no meter", exc_info=True)
        return None


class FleetMetrics:
    """The metrics of one worker; nothing is counted before the first `update`."""

    def __init__(self, meter: "Meter", at_work: Callable[[], int], refused: Callable[[], int]) -> None:
        """Create the instruments.

        at_work: returns how many items this worker works on; called in any thread.
        refused: returns how many of its requests were refused so far; as above.
        """
        self._batches: Sequence[BatchStatus] = ()
        self._final: dict[str, tuple[float, BatchStatus]] = {}
        self._at_work, self._refusals = at_work, refused
        self._observe(meter, "items", "{item}", "Items of a batch by state", self._items)
        self._observe(meter, "items.at_work", "{item}", "Items that this worker works on", self._own_items)
        self._observe(
            meter, "requests.refused", "{request}", "Requests of this worker that an API refused", self._refused
        )
        self._observe(meter, "requests.waiting", "{request}", "Requests of this worker that wait for the API", _waiting)
        self._observe(meter, "heartbeat.age", "s", "Age of the oldest heartbeat of a batch", self._heartbeats)
        self._observe(meter, "cost", "{USD}", "Known cost of the runs of a batch", self._costs)
        self._observe(meter, "cost.limit", "{USD}", "Cost limit of a batch", self._limits)

    def gone(self, batches: Sequence[BatchStatus]) -> list[str]:
        """Return the batches that had jobs at the last update and have none now.

        batches: those that have jobs.
        """
        return sorted({one.batch_id for one in self._batches} - {one.batch_id for one in batches} - {*self._final})

    def update(self, batches: Sequence[BatchStatus], ended: Sequence[BatchStatus] = ()) -> None:
        """Set the batches that have jobs, and add batches that have ended, whose final counts are kept for a while.

        ended: the current state of the batches that `gone` returned.
        """
        now = time.monotonic()
        final = {one.batch_id: (now, one) for one in ended}
        at_work = {one.batch_id for one in batches}
        self._final = {
            name: (since, one)
            for name, (since, one) in {**self._final, **final}.items()
            if now - since < FINAL and name not in at_work
        }
        self._batches = (*batches, *(one for _, one in self._final.values()))

    @staticmethod
    def _observe(
        meter: "Meter", name: str, unit: str, description: str, figures: Callable[[], Iterator[Figure]]
    ) -> None:
        def observe(_: "CallbackOptions") -> "list[Observation]":
            from opentelemetry.metrics import Observation  # noqa: PLC0415 - the meter has already imported it

            return [Observation(value, attributes) for value, attributes in figures()]

        meter.create_observable_gauge(f"{PREFIX}.{name}", [observe], unit, description)

    def _items(self) -> Iterator[Figure]:
        for one in self._batches:
            for state, count in one.items.items():
                yield count, {**_of(one), f"{PREFIX}.state": state}

    def _own_items(self) -> Iterator[Figure]:
        yield self._at_work(), {}

    def _refused(self) -> Iterator[Figure]:
        yield self._refusals(), {}

    def _heartbeats(self) -> Iterator[Figure]:
        return ((one.silent, _of(one)) for one in self._batches if one.silent is not None)

    def _costs(self) -> Iterator[Figure]:
        return ((one.cost_usd, _of(one)) for one in self._batches)

    def _limits(self) -> Iterator[Figure]:
        return ((one.cost_limit, _of(one)) for one in self._batches if one.cost_limit is not None)


def _waiting() -> Iterator[Figure]:
    yield GATES.waiting, {}


def _of(one: BatchStatus) -> dict[str, Any]:
    return {f"{PREFIX}.batch": one.batch_id, "gen_ai.agent.name": one.specialist}
