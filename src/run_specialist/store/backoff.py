"""How often, and for how long, a store that cannot be reached is tried again."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between attempts: none before the second one, then growing ones until the patience is over."""

    first: float = 0.1
    """The shortest pause; each one after it is twice as long [s]."""
    longest: float = 2.0
    """The longest pause [s]."""
    patience: float | None = None
    """How long to go on after the first failure; None = as long as suits the store [s]."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self, patience: float) -> Iterator[float]:
        """Yield how long to wait before each further attempt, counted from the first failure.

        patience: where none was given [s].
        """
        until = self.clock() + (patience if self.patience is None else self.patience)
        yield 0
        pause = self.first
        while (left := until - self.clock()) > 0:
            yield min(pause, left)
            pause = min(2 * pause, self.longest)
