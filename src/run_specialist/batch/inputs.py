"""The items of a batch in the order in which they begin: new ones, and those that were taken back."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from run_specialist.batch.item import Item

ATTEMPTS = 3
"""Maximum number of attempts for an item that may itself cause the failures of the endpoint."""


class ItemQueue:
    """Hands out items one by one. Memory is bounded, except for items that other processes work on."""

    def __init__(self, read: Callable[[], Iterable[Item]], total: int | None, waiting: int) -> None:
        """Take the items; nothing is read before `next`.

        read: returns the items from the first one on; called once if there is no total.
        total: number of items; None = not known before the end.
        waiting: number of taken-back items from which on they are handed out before new ones.
        """
        self.read = read
        self.total = total
        """Number of items; None until it is known."""
        self._new: Iterator[Item] | None = None
        self._waiting = waiting
        self._read = 0
        self._has_ended = self._is_finishing = False
        self._back: deque[Item] = deque()
        self._elsewhere: deque[Item] = deque()
        self._tried_elsewhere: set[int] = set()
        self._attempts: dict[int, int] = {}
        self._dropped = 0

    def next(self, *, probe: bool = False, is_idle: bool) -> Item | None:
        """Return the item to begin; None if there is none at the moment.

        probe: prefer an item that has failed.
        is_idle: whether no item is in progress, so that the only items left are those that another process works on.
        Exceptions of the iterator of the items are passed on.
        """
        if self._back and (probe or self._has_ended or len(self._back) >= self._waiting):
            return self._back.popleft()
        if (item := self._next_new()) is not None:
            return item
        if self._back:
            return self._back.popleft()
        self._is_finishing = self._is_finishing or is_idle
        return self._elsewhere.popleft() if self._elsewhere and self._is_finishing else None

    def _next_new(self) -> Item | None:
        if self._has_ended:
            return None
        if self._new is None:
            self._new = iter(self.read())
        try:
            item = next(self._new, None)
        except BaseException:
            self._has_ended = True
            raise
        if item is None:
            self._has_ended, self.total = True, self._read
        else:
            self._read += 1
        return item

    def put_back(self, item: Item, *, may_fail: bool) -> bool:
        """Take an item back because the endpoint failed; return False after too many attempts.

        may_fail: whether the failure counts as an attempt, because the item may have caused it.
        """
        if may_fail:
            attempts = self._attempts[item.number] = self._attempts.get(item.number, 0) + 1
            if attempts >= ATTEMPTS:
                return False
        self._back.append(item)
        return True

    def ended(self, item: Item) -> None:
        """Forget the attempts at an item that has ended."""
        self._attempts.pop(item.number, None)
        self._tried_elsewhere.discard(item.number)

    def put_last(self, item: Item) -> bool:
        """Take back an item that another process works on; return False if it was already put last."""
        if item.number in self._tried_elsewhere:
            return False
        self._tried_elsewhere.add(item.number)
        self._elsewhere.append(item)
        return True

    def drop(self) -> None:
        """Count an item that was handed out as not run."""
        self._dropped += 1

    @property
    def not_run(self) -> int:
        """Number of known items that were not handed out, or were taken back."""
        unread = 0 if self.total is None else self.total - self._read
        return unread + len(self._back) + len(self._elsewhere) + self._dropped
