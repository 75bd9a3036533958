"""The store of one `Runner`, opened by the first run that needs it."""

import asyncio
from pathlib import Path
from threading import Lock
from typing import get_args

from run_specialist.errors import NotResumable, UsageError
from run_specialist.record.journal import Journal, OnLost
from run_specialist.store.location import NONE, Location, place
from run_specialist.store.stored import StoredRun
from run_specialist.store.writer import Writer


class RunStore:
    """Opens journals in the named or the default store."""

    def __init__(self, store: str | None, on_lost: OnLost) -> None:
        """Set the location, without opening the store.

        store: the argument `store` of a `Runner`; None for the default.
        on_lost: with `abort`, no run starts without its store, not even without the default one.
        Raises UsageError for another value of `on_lost`.
        """
        if on_lost not in get_args(OnLost):
            raise UsageError(f"on_lost must be one of {', '.join(get_args(OnLost))}, got {on_lost!r}")
        self.on_lost = on_lost
        self._store = store
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
        if writer is None:
            return None
        claiming = asyncio.ensure_future(asyncio.to_thread(writer.claim, run))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            if claiming.cancelled():
                raise
            # A claimed run without a journal could not be resumed while this process is alive. So return the journal,
            # and let the cancellation take effect at the next await.
            journal = await claiming
            if task := asyncio.current_task():
                task.uncancel()
                task.cancel()
            return journal

    async def load(self, run_id: str, project: str) -> StoredRun:
        """Return a stored run.

        run_id: an id, an unambiguous prefix, or `last`: the newest run of the project.
        Raises RunNotFound, or NotResumable if runs are not stored or the working folder no longer exists.
        """
        location = self._location()
        if location is None:
            raise NotResumable("the store is `none`, so no runs are stored; set the store that contains the run")
        return await asyncio.to_thread(_load, location.url, run_id, project)

    async def aclose(self) -> None:
        """Flush pending writes and close the store."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
            self._writer = None

    def _location(self) -> Location | None:
        location = place(self._store)
        return None if location.url == NONE else location

    async def _open_writer(self) -> Writer | None:
        location = self._location()
        if location is None:
            return None
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


def _load(url: str, run_id: str, project: str) -> StoredRun:
    from run_specialist.store.reader import Store  # noqa: PLC0415 - a database library

    with Store(url) as store:
        run = store.load(run_id, project)
    if not Path(run.frozen["root"]).is_dir():
        raise NotResumable(f"{run.run_id}: its working folder {run.frozen['root']} no longer exists")
    return run
