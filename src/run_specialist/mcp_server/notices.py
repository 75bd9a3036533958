"""Report repeated events at a limited rate."""

import asyncio
from collections.abc import Callable

INTERVAL = 60.0
"""Minimum time between two reports [s]."""


class Notices:
    """Counts events; reports the first one immediately and further ones at most once per interval."""

    def __init__(self, report: Callable[[int], None], interval: float = INTERVAL) -> None:
        """Set the reporting function.

        report: called with the number of events since the last report.
        interval: minimum time between two reports [s].
        """
        self._report = report
        self._interval = interval
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self) -> None:
        """Count one event; requires a running event loop."""
        self._count += 1
        if self._timer is None:
            self._report_count()

    def close(self) -> None:
        """Report the remaining events, and stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._count:
            self._report(self._count)

    def _report_count(self) -> None:
        self._timer = None
        if self._count:
            count, self._count = self._count, 0
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._report_count)
            self._report(count)
