"""Divide the cost limit of a batch among its items; pure."""

from collections.abc import Collection
from math import fsum

DIGITS = 9
"""Number of digits of amounts that are compared."""


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
        return max(round(self.limit - self.spent - self.granted, DIGITS), 0.0)

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
        self._typical = max(self._typical, round(spent, DIGITS))
