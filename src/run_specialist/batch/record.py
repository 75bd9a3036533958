"""Store a batch and its items; make the id of a batch."""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from run_specialist.batch.item import Item
from run_specialist.errors import StoreUnusable, UsageError

if TYPE_CHECKING:
    from run_specialist.store import batches


PORTION = 1_000
"""Number of items in memory at the same time while a batch is written."""


class BatchRecord:
    """Stores a batch and its items, so that other processes can see the remaining work.

    If the store fails after the batch was written, the batch continues: its runs store themselves.
    """

    is_read_only = False
    """Whether nothing is written, because the stored batch is that of a fleet; set before `open`."""
    _writer: "batches.BatchWriter | None" = None

    def __init__(
        self,
        batch: "batches.StoredBatch | None" = None,
        url: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        """Set what to write, without opening the store.

        batch: its row; None = nothing is stored.
        url: opens the store and returns its URL; None if nothing is stored.
        """
        self._batch, self._url = batch, url
        self._batch_id = "" if batch is None else batch.batch_id

    async def open(self, items: Iterable[tuple[str, Item]], stopped: Callable[[], bool]) -> Mapping[str, float] | None:
        """Write the batch and these items; return their stored runs by id with their cost so far [USD].

        items: with the ids of their runs.
        stopped: returns whether the caller has stopped the batch; the remaining items are then not written.
        Returns None if nothing is stored. Raises StoreUnusable.
        """
        url = None if self._url is None else await self._url()
        if url is None or self._batch is None:
            return None
        from run_specialist.store.batches import BatchWriter  # noqa: PLC0415 - only for stored batches

        writer = await asyncio.to_thread(BatchWriter, url)
        if self.is_read_only:
            with writer:
                return await asyncio.to_thread(writer.begun, self._batch_id)
        self._writer = writer
        await asyncio.to_thread(writer.put, self._batch, ())
        # The items are read in this thread, because their source may not be usable in another thread.
        remaining = iter(items)
        while portion := [_row(run_id, item) for run_id, item in islice(remaining, PORTION)]:
            if stopped():
                # The items of earlier calls that were not written again have lost their numbers, but may have runs.
                return await asyncio.to_thread(writer.begun, self._batch_id, of_all_calls=True)
            await asyncio.to_thread(writer.add, self._batch_id, portion)
        return await asyncio.to_thread(writer.begun, self._batch_id)

    async def add(self, run_id: str, item: Item) -> None:
        """Write one more item that was unknown when the batch was opened."""
        await self._tried(lambda writer: writer.add(self._batch_id, [_row(run_id, item)]))

    async def mark_failed(self, run_id: str, error: str | None) -> None:
        """Record that an item failed permanently, with its error if it has no run."""
        from run_specialist.store.schema import ENDED  # noqa: PLC0415 - only for stored batches

        await self._tried(lambda writer: writer.mark(self._batch_id, run_id, ENDED, error))

    async def set_state(self, state: str, reason: str | None = None) -> None:
        """Write the state of the batch: `open`, `paused` or `ended`."""
        await self._tried(lambda writer: writer.set_state(self._batch_id, state, reason))

    async def aclose(self) -> None:
        """Close the connection to the store."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
            self._writer = None

    async def _tried(self, write: "Callable[[batches.BatchWriter], object]") -> None:
        if self._writer is not None:
            with suppress(StoreUnusable):
                await asyncio.to_thread(write, self._writer)


def _row(run_id: str, item: Item) -> "batches.StoredItem":
    from run_specialist.store import batches  # noqa: PLC0415 - as above

    return batches.StoredItem(run_id, item.number, item.input, item.question)


LONGEST = 60
"""Maximum length; the ids of runs begin with it [characters]."""
_DIGITS = 8
_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}")


def batch_id(project: str, specialist: Sequence[str | None], question: str | None, source: str) -> str:
    """Return `b` and 8 hexadecimal digits that depend on the question of the batch, but not on its items.

    specialist: its name, the digest of its file, its settings and the model.
    question: template of the questions; None = each item is its question.
    source: name of the source of the items.
    """
    parts = json.dumps([project, specialist, question, source])
    return f"b{hashlib.sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def checked_id(given: str) -> str:
    """Return a valid id; raises UsageError for an id that cannot name a batch."""
    if not _ID.fullmatch(given):
        raise UsageError(
            f"batch: {given!r} cannot be the id of a batch; use 1 to {LONGEST} letters, digits, `.`, `_` and `-`"
        )
    return given
