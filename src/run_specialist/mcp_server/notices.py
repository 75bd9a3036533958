"""Repeated events as one line a minute."""

import asyncio
from collections.abc import Callable

INTERVAL = 60.0
"""Between two lines about the same [s]."""


class Notices:
    """Counts events of one kind, and reports them at the first one and then at most once in each interval."""

    def __init__(self, report: Callable[[int], None], interval: float = INTERVAL) -> None:
        """Take what reports.

        report: takes the number of events since the last report.
        interval: between two reports [s].
        """
        self._report = report
        self._interval = interval
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self) -> None:
        """Count one event; only inside of an event loop."""
        self._count += 1
        if self._timer is None:
            self._tell()

    def close(self) -> None:
        """Report what was not reported yet, and stop."""
        if self._timer is not None:
            self._timer.cancel()
        if self._count:
            self._report(self._count)

    def _tell(self) -> None:
        self._timer = None
        if self._count:
            count, self._count = self._count, 0
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._tell)
            self._report(count)
