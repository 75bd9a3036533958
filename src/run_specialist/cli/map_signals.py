"""Ctrl-C during `specialists map`: once finishes the turns under way, twice stops at once."""

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from run_specialist.cli.map_units import counted

if TYPE_CHECKING:
    from run_specialist.batch.batch import Batch


class Interrupts:
    """Turns signals into the end of a batch."""

    def __init__(self, batch: "Batch", notify: Callable[[str], None]) -> None:
        """Prepare to stop a batch.

        notify: called with a line for people.
        """
        self._batch = batch
        self._notify = notify
        self.count = 0
        """How many signals have come."""

    def handle(self) -> None:
        """Handle the signals of the running event loop from now on."""
        loop = asyncio.get_running_loop()
        # Closing the terminal ends the batch, unless `nohup` ignores the signal.
        hang_up = getattr(signal, "SIGHUP", None)
        hang_ups = [] if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN else [hang_up]
        for number in (signal.SIGINT, signal.SIGTERM, *hang_ups):
            loop.add_signal_handler(number, self._interrupt, loop)

    def _interrupt(self, loop: asyncio.AbstractEventLoop) -> None:
        self.count += 1
        if self.count == 1:
            self._batch.stop()
            turns = self._batch.counts.under_way
            doing = f"finishing {counted(turns, 'turn')}" if turns else "stopping"
            self._notify(f"{doing}; Ctrl-C again to stop at once")
            return
        # The next one ends the program, also if a tool or a connection hangs.
        loop.remove_signal_handler(signal.SIGINT)
        self._notify("stopping at once")
        self._batch.stop(now=True)
