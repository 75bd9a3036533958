"""The records of a batch in the store; the runs of its items store themselves."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from run_specialist.batch.item import Item


class BatchRecord(Protocol):
    """Stores a batch and its items, so that other processes can see the remaining work."""

    def only_read(self) -> None:
        """Write nothing from now on; call it before `open`."""
        ...

    async def open(self, items: Iterable[Item], stopped: Callable[[], bool]) -> Mapping[str, float] | None:
        """Write the batch and these items; return their stored runs by id with their cost so far [USD].

        stopped: returns whether the caller has stopped the batch; the remaining items are then not written.
        Returns None if it is unknown which runs are stored.
        """
        ...

    async def add(self, item: Item) -> None:
        """Write one more item that was unknown when the batch was opened."""
        ...

    async def mark_failed(self, item: Item, error: str | None) -> None:
        """Record that an item failed permanently, with its error if it has no run."""
        ...

    async def set_state(self, state: str, reason: str | None = None) -> None:
        """Record the state of the batch: `open`, `paused` or `ended`."""
        ...

    async def aclose(self) -> None:
        """Close the connection to the store."""
        ...


class NoRecord:
    """The record of a batch that is not stored."""

    def only_read(self) -> None:
        """Do nothing."""

    async def open(self, items: Iterable[Item], stopped: Callable[[], bool]) -> Mapping[str, float] | None:
        """Do nothing."""
        del items, stopped
        return None

    async def add(self, item: Item) -> None:
        """Do nothing."""

    async def mark_failed(self, item: Item, error: str | None) -> None:
        """Do nothing."""

    async def set_state(self, state: str, reason: str | None = None) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""
