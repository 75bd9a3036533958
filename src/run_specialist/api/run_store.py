"""The store of one `Runner`, opened by the first run that needs it."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TypeVar, get_args

from run_specialist.errors import NotResumable, StoreUnusable, UsageError
from run_specialist.record.journal import Journal, Opened, Record
from run_specialist.record.outcome import OnLost
from run_specialist.store import owners
from run_specialist.store.location import NONE, Location, place
from run_specialist.store.rows import KnownRun
from run_specialist.store.stored import StoredRun
from run_specialist.store.writer import Writer

_T = TypeVar("_T")

NOTHING_STORED = "the store is `none`, so no runs are stored; set the store that contains the run"


class RunStore:
    """Opens journals in the named or the default store."""

    def __init__(self, store: str | None, on_lost: OnLost) -> None:
        """Set the location, without opening the store.

        store: the argument `store` of a `Runner`; None for the default.
        on_lost: with `abort`, no run starts if its store, even the default one, cannot be opened.
        Raises UsageError for another value of `on_lost`.
        """
        if on_lost not in get_args(OnLost):
            raise UsageError(f"on_lost must be one of {', '.join(get_args(OnLost))}, got {on_lost!r}")
        self.on_lost, self._store = on_lost, store
        self._needed = on_lost == "abort"
        self._writer: Writer | None = None
        self._opening = Lock()

    async def journal(self, run_id: str) -> Journal | None:
        """Return the journal of a new run; None if runs are not stored.

        Raises StoreUnusable if the store was named or is needed; for the default store the run emits a warning.
        """
        writer = await self._open_writer()
        return None if writer is None else writer.journal(run_id)

    async def claim(self, run: StoredRun) -> Journal | None:
        """Take over a stored run and return its journal; None if runs are not stored.

        Raises NotResumable if another process is executing the run.
        """
        writer = await self._open_writer()
        # A claimed run without a journal could not be resumed while this process is alive.
        return None if writer is None else await _completed(partial(writer.claim, run))

    async def begin(self, opened: Opened) -> Journal | KnownRun | None:
        """Commit the first record of a run whose id was given, and return its journal; None if runs are not stored.

        If a run with this id is stored already, nothing is written, and that run is returned.
        Raises StoreUnusable if the store was named and cannot be opened, or is needed and cannot be written; else the
        run emits a warning.
        """
        writer = await self._open_writer()
        if writer is None:
            return None
        try:
            return await _completed(lambda: writer.begin(opened))
        except StoreUnusable:
            if self._needed:
                raise
            return writer.journal(opened.run_id)

    async def fork(self, opened: Opened, copied: Sequence[Record], turns: int) -> Journal:
        """Commit a new run with the copied turns that it begins with, and return its journal.

        copied: the turns, calls and messages of another run.
        turns: their number.
        Raises StoreUnusable: without its beginning the run could not be resumed.
        """
        writer = await self._open_writer()
        if writer is None:
            raise NotResumable(NOTHING_STORED)
        journal = await _completed(lambda: writer.begin(opened, copied, turns))
        if isinstance(journal, KnownRun):
            raise NotResumable(f"{opened.run_id} is stored already")
        return journal

    async def look(self, run_id: str) -> KnownRun | None:
        """Return a stored run by its whole id, without its transcript; None if there is none.

        Raises StoreUnusable; an optional default store that cannot be opened counts as empty.
        """
        writer = await self._open_writer()
        if writer is None:
            return None
        try:
            return await asyncio.to_thread(writer.look, run_id)
        except StoreUnusable:
            if writer.was_open or self._needed:
                raise
            return None

    async def worker_of(self, known: KnownRun) -> str | None:
        """Return a description of the process that works on a run without an outcome; None if no process does.

        Raises StoreUnusable.
        """
        writer, location, owner = self._writer, self._location(), known.owner
        if writer is None or location is None:
            return None
        if writer.works_on(known):
            return "this process"
        if owner == writer.owner or not await asyncio.to_thread(owners.is_alive, location.url, owner):
            return None
        return await asyncio.to_thread(owners.describe, location.url, owner)

    async def load(self, run_id: str, project: str) -> StoredRun:
        """Return a stored run.

        run_id: an id, an unambiguous prefix, or `last`: the newest run of the project.
        Raises RunNotFound, or NotResumable if runs are not stored.
        """
        location = self._location()
        if location is None:
            raise NotResumable(NOTHING_STORED)

        def load() -> StoredRun:
            from run_specialist.store.reader import Store  # noqa: PLC0415 - a database library

            with Store(location.url) as store:
                return store.load(run_id, project)

        return await asyncio.to_thread(load)

    async def opened_url(self) -> str | None:
        """Open the store and return its URL; None if runs are not stored, or the default store cannot be opened.

        Raises StoreUnusable if the store was named or is needed.
        """
        writer, location = await self._open_writer(), self._location()
        if writer is None or location is None:
            return None
        try:
            await asyncio.to_thread(writer.check)
        except StoreUnusable:
            if location.named or self._needed:
                raise
            return None
        return location.url

    async def aclose(self) -> None:
        """Flush pending writes and close the store."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
            self._writer = None

    def _location(self) -> Location | None:
        location = place(self._store)
        return None if location.url == NONE else location

    async def _open_writer(self) -> Writer | None:
        location, writer = self._location(), self._writer
        if location is None or (writer is not None and writer.was_open and not writer.is_given_up):
            return None if location is None else writer
        # In a thread: a slow store must not block other runs.
        return await asyncio.to_thread(self._writer_for, location)

    def _writer_for(self, location: Location) -> Writer:
        with self._opening:
            writer = self._writer
            # Reopen a store after a failure, but do not retry a default store that has never opened for every run.
            if writer is not None and writer.is_given_up and (location.named or self._needed or writer.was_open):
                writer.close()
                writer = None
            if writer is None:
                writer = self._writer = Writer(location)
        if location.named or self._needed:
            writer.check()
        return writer


async def _completed(function: Callable[[], _T]) -> _T:
    """Run a function in a thread and return its result, even if this task is cancelled meanwhile.

    The cancellation takes effect at the next await.
    """
    running, was_cancelled = asyncio.ensure_future(asyncio.to_thread(function)), False
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            was_cancelled = True
    task = asyncio.current_task()
    if was_cancelled and task and not running.cancelled():
        task.uncancel()
        task.cancel()
    return running.result()
