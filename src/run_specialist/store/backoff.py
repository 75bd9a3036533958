"""Retry schedule for a store that cannot be reached."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff: an immediate second attempt, then growing pauses until a time limit."""

    first: float = 0.1
    """First pause; each further pause is twice as long [s]."""
    longest: float = 2.0
    """Maximum pause [s]."""
    patience: float | None = None
    """How long to retry after the first failure; None = the default of the store [s]."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self, patience: float) -> Iterator[float]:
        """Yield the pause before each retry, starting at the first failure [s].

        patience: time limit if `self.patience` is None [s].
        """
        until = self.clock() + (patience if self.patience is None else self.patience)
        yield 0
        pause = self.first
        while (left := until - self.clock()) > 0:
            yield min(pause, left)
            pause = min(2 * pause, self.longest)
