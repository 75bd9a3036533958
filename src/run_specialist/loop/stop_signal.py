"""Whether a run is to stop, and how soon: set by `Run.abort`, read by its loop, its requests and its children."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequested(Exception):
    """A request is not sent again, because its run is to stop."""


class StopSignal:
    """The request to stop a run, which is never withdrawn."""

    def __init__(self) -> None:
        self.is_requested = False
        """True once the run is to send no further request to the model."""
        self.is_now = False
        """True once the turn under way is to be cut short, too."""
        self._listeners: list[Callable[[], object]] = []

    def request(self, *, now: bool) -> None:
        """Stop the run: now, or after the turn under way."""
        is_first, self.is_requested = not self.is_requested, True
        self.is_now = self.is_now or now
        if is_first:
            for listener in [*self._listeners]:
                listener()

    @contextmanager
    def notifying(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call a function once when the run is to stop, as long as the block lasts; at once if it already is."""
        if self.is_requested:
            listener()
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
