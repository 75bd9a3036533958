"""Handle Ctrl-C during `specialists map`: the first stops after the current turns, the second immediately."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from run_specialist.cli.batch.map_units import counted
from run_specialist.record.outcome import Exit

if TYPE_CHECKING:
    from run_specialist.batch.batch import Batch

_SHOW_CURSOR = b"\r\n\x1b[?7h\x1b[?25h"
"""Terminal codes that the live view would write at its end: restore line wrapping and show the cursor."""


class Interrupts:
    """Ends a batch on signals."""

    def __init__(self, batch: "Batch", notify: Callable[[str], None]) -> None:
        """Prepare to stop a batch.

        notify: called with a line to show.
        """
        self._batch = batch
        self._notify = notify
        self.count = 0
        """Number of signals received."""

    def handle(self) -> None:
        """Install the signal handlers in the running event loop."""
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
            self._notify(f"{doing}; Ctrl-C again to stop immediately")
            return
        # The next one ends the program, even if a tool ignores that it is cancelled; what was paid is stored.
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, _exit)
        self._notify("stopping immediately")
        self._batch.stop(now=True)


def _exit(*_: object) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR)
    os._exit(Exit.INTERRUPTED)
