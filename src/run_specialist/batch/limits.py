"""Limit a batch: pause while the endpoint fails, share the cost limit, and forecast the rest. Pure."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import ceil, fsum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from run_specialist.store.stored import PastRun


PAUSING = frozenset({"rate_limited", "overloaded", "quota", "connection", "server_error"})
"""Kinds of failures that may pass with time."""
ENDING = frozenset({"credentials", "model_missing"})
"""Kinds of failures for which waiting does not help."""
MAY_BE_THE_ITEM = frozenset({"connection", "server_error"})
"""Kinds of failures that a single item may cause even if the endpoint works."""

USAGE = "usage"
"""Kind of failure if no run could begin for an item."""

FAILURES = 3
"""Default number of failures in a row that open the breaker."""
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 600.0
"""Bounds of a pause whose length the server does not name [s]."""
SHORTEST_PAUSE = 1.0
"""Minimum duration of a pause [s]."""
PAUSE_LIMIT = 3600.0
"""Default maximum duration of one pause with all its probes [s]."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a batch, in which only single items begin, as probes of the endpoint."""

    kind: str
    """`Outcome.error_kind` of the failures."""
    reason: str
    """The last error, in one line."""
    until: float
    """Time of the next probe [seconds since 1970]."""


class Breaker:
    """A circuit breaker: closed while items may begin, opened by consecutive failures, closed by an answered probe."""

    def __init__(self, failures: int = FAILURES, pause_limit: float = PAUSE_LIMIT) -> None:
        """Start closed.

        failures: number of consecutive failures of the same kind that open the breaker, at least 1.
        pause_limit: maximum duration of a pause, after which the batch ends [s].
        """
        self._needed = failures
        self._pause_limit = pause_limit
        # The kind of the consecutive failures.
        self._kind = ""
        # The items that failed consecutively, by run id.
        self._failed: list[str] = []
        self.has_answered = False
        """Whether a request was answered since the batch began."""
        self._opened_at = 0.0
        self._pauses = 0
        self._is_probing = False
        self.pause: Pause | None = None
        """The current pause; None while items may begin."""
        self.ended: str | None = None
        """The kind of failure that ended the batch."""
        self.reason: str | None = None
        """The error of the newest pause, or of the end."""

    def wait(self, now: float) -> float:
        """Return the time until an item may begin [s]; infinity while a probe is in progress."""
        if self.pause is None:
            return 0.0
        return math.inf if self._is_probing else max(self.pause.until - now, 0.0)

    def begin(self) -> bool:
        """Register the start of an item; return whether it is a probe."""
        self._is_probing = self.pause is not None
        return self._is_probing

    def probe_ended(self) -> None:
        """Register the end of a probe; if it was neither answered nor failed, another one may begin."""
        self._is_probing = False

    def answered(self, *, is_probe: bool) -> bool:
        """Register that a request of an item was answered; return whether that ends a pause."""
        self.has_answered = True
        if not is_probe:
            return False
        self._is_probing, self.pause = False, None
        self.worked()
        return True

    def worked(self) -> None:
        """Register an item that ended without an endpoint failure."""
        if self.pause is None:
            self._failed.clear()

    def failed(  # noqa: PLR0913 - what is known of the failure
        self, run_id: str, kind: str, reason: str, retry_after: float | None, now: float, *, is_probe: bool = False
    ) -> bool:
        """Register an endpoint failure of an item; return whether the batch pauses or ends.

        retry_after: the wait that the server requests [s].
        """
        if self.ended is not None:
            return True
        if self.pause is not None:
            if kind == USAGE:
                return False
            if is_probe:
                self._is_probing = False
                self._wait(kind, reason, retry_after, now)
            return True
        # Only the same error again says that no run can begin for any item.
        same = reason if kind == USAGE else kind
        if same != self._kind:
            self._kind, self._failed = same, []
        if run_id not in self._failed or kind not in MAY_BE_THE_ITEM:
            self._failed.append(run_id)
        # Before any answer a wrong key or model needs no second look: it is the same for all items.
        needed = 1 if kind in ENDING and not self.has_answered else self._needed
        if len(self._failed) < needed or (kind == USAGE and self.has_answered):
            return False
        self._opened_at, self._pauses = now, 0
        if kind in PAUSING:
            self._wait(kind, reason, retry_after, now)
        else:
            self.ended, self.reason = kind, reason
        return True

    def _wait(self, kind: str, reason: str, retry_after: float | None, now: float) -> None:
        """Pause from now on, or end if the pause would last too long."""
        self.reason = reason
        left = self._opened_at + self._pause_limit - now
        own = min(FIRST_PAUSE * 2**self._pauses, LONGEST_PAUSE, max(left, SHORTEST_PAUSE))
        asked = 0.0 if retry_after is None else max(retry_after, SHORTEST_PAUSE)
        # The first wait is that of the server. If it was too short, so that the probe failed, the next is longer.
        seconds = asked if asked and not self._pauses else max(asked, own)
        self._pauses += 1
        if kind not in PAUSING or seconds > left:
            self.pause, self.ended = None, kind
        else:
            self.pause = Pause(kind, reason, now + seconds)


HIGH = 0.9
"""Quantile of past runs that is the high figure."""
ANSWERED = frozenset({"answered", "landed", "partial"})
"""Statuses of runs that were not interrupted, so that their cost and time are typical."""


MOST_RUNS = 200
"""Maximum number of past runs that count; the newest are used."""
# With at least this many runs of the current version of the file, runs of other versions do not count.
_ENOUGH_RUNS = 5


@dataclass(frozen=True, slots=True)
class Typical:
    """The median and the high figure of past runs."""

    median: float
    high: float
    """Nine of ten runs took at most this."""
    mean: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the figures of at least one run."""
        from statistics import median  # noqa: PLC0415 - fast `--help`

        ordered = sorted(values)
        return cls(median(ordered), ordered[ceil(HIGH * len(ordered)) - 1], fsum(ordered) / len(ordered))


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast for one item and for all items; the figures are None without past runs."""

    runs: int
    """Number of past runs."""
    items: int | None
    """Number of items; None if it is not known."""
    tool_calls: Typical | None = None
    """Tool calls of an item."""
    seconds: Typical | None = None
    """Time of an item [s]."""
    cost_usd: Typical | None = None
    """Cost of an item; None also if a price is not known [USD]."""

    @property
    def total_cost_low(self) -> float | None:
        """Cost of all items if each costs the median [USD]."""
        return None if self.items is None or self.cost_usd is None else self.items * self.cost_usd.median

    @property
    def total_cost_high(self) -> float | None:
        """Cost of all items if each costs as much as the 90th percentile of past runs [USD]."""
        return None if self.items is None or self.cost_usd is None else self.items * self.cost_usd.high

    def total_seconds(self, at_once: int) -> float | None:
        """Return the time of all items with this many in parallel [s]."""
        if self.items is None or self.seconds is None:
            return None
        # The last round is as long as one item, even if there are few of them.
        return max(self.items * self.seconds.mean / at_once, self.seconds.mean if self.items else 0.0)


def forecast(past: "Sequence[PastRun]", items: int | None) -> Forecast:
    """Return the forecast for some items; past runs without an answer do not count.

    items: number of items; None = unknown.
    """
    outcomes = [run.outcome for run in past if run.outcome.get("status") in ANSWERED]
    if not outcomes:
        return Forecast(0, items)
    costs = [one["cost_usd"] for one in outcomes]
    return Forecast(
        len(outcomes),
        items,
        Typical.of([one["tool_calls"]["used"] for one in outcomes]),
        Typical.of([one["duration_s"] for one in outcomes]),
        None if None in costs else Typical.of(costs),
    )


def alike(past: "Sequence[PastRun]", model: str, digest: str) -> "Sequence[PastRun]":
    """Return the past runs of a model; only those of the current version of the file if there are enough.

    past: newest first.
    digest: SHA-256 of the file.
    """
    runs = [run for run in past if run.outcome.get("model") == model]
    current = [run for run in runs if run.digest == digest]
    return (current if len(current) >= _ENOUGH_RUNS else runs)[:MOST_RUNS]


# Number of digits of amounts that are compared.
_DIGITS = 9


class Grants:
    """The cost limit of a batch: the amount spent, and the amounts that items may still spend.

    The sum of both never exceeds the limit, unless an item spends more than its grant; later grants are then smaller.
    """

    def __init__(self, limit: float, slots: int, *, spent: float = 0.0, typical: float = 0.0) -> None:
        """Start with nothing granted.

        limit: cost limit of all items together [USD].
        slots: maximum number of items in progress.
        spent: cost of earlier calls [USD].
        typical: typical cost of an item, from past runs; 0 = unknown [USD].
        """
        self.limit = limit
        self.spent = spent
        """The amount spent by ended items, and by earlier calls [USD]."""
        self._slots = slots
        self._typical = typical
        self._granted: list[float] = []

    def count_earlier(self, costs: Collection[float]) -> None:
        """Add the cost of runs of earlier calls [USD]."""
        self.spent += fsum(costs)
        self._typical = max([self._typical, *costs])

    @property
    def granted(self) -> float:
        """The amount that the items in progress may spend [USD]."""
        return fsum(self._granted)

    @property
    def left(self) -> float:
        """The amount that is neither spent nor granted, never below 0 [USD]."""
        # Rounded, so that five items of 0.2 fit into 1.0.
        return max(round(self.limit - self.spent - self.granted, _DIGITS), 0.0)

    @property
    def is_exhausted(self) -> bool:
        """Whether no more items can begin, because no grant is outstanding that could be returned."""
        return not self._granted and not self._covers_an_item

    @property
    def _covers_an_item(self) -> bool:
        # With a limit below the cost of one item, a single item gets all of it, and lands.
        return self.left > 0 and self.left >= min(self._typical, self.limit)

    def take(self, most: float | None = None) -> float | None:
        """Grant an item its share, at least a typical cost; None = wait until other grants are returned.

        most: the remainder of its own limit; None = no limit [USD].
        """
        free = self._slots - len(self._granted)
        if free < 1 or not self._covers_an_item:
            return None
        grant = min(max(self.left / free, self._typical), self.left)
        if most is not None:
            grant = min(grant, max(most, 0.0))
        self._granted.append(grant)
        return grant

    def settle(self, grant: float, spent: float) -> None:
        """Return a grant, of which an item has spent a part [USD]."""
        self._granted.remove(grant)
        self.spent += spent
        self._typical = max(self._typical, round(spent, _DIGITS))
