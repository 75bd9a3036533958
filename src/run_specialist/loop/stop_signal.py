"""The signal that a run must stop, and how soon: set by `Run.abort`, read by the loop, requests and children."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequested(Exception):
    """A request is not sent again, because its run must stop."""


class StopSignal:
    """A request to stop a run; it cannot be withdrawn."""

    def __init__(self) -> None:
        self.is_requested = False
        """True once the run must not send another request to the model."""
        self.is_now = False
        """True once the current turn must be interrupted, too."""
        self._listeners: list[Callable[[], object]] = []

    def request(self, *, now: bool) -> None:
        """Stop the run: immediately, or after the current turn."""
        is_first, self.is_requested = not self.is_requested, True
        self.is_now = self.is_now or now
        if is_first:
            for listener in [*self._listeners]:
                listener()

    @contextmanager
    def notifying(self, listener: Callable[[], object]) -> Iterator[None]:
        """Within the block, call a function once when the run must stop; immediately if it already must."""
        if self.is_requested:
            listener()
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
