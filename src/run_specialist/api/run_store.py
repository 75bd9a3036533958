"""Where the runs of one runner are kept: the store is opened when the first run needs it, once for all."""

import asyncio
from pathlib import Path
from threading import Lock

from run_specialist.errors import NotResumable
from run_specialist.record.journal import Journal
from run_specialist.store.location import NONE, Location, place
from run_specialist.store.stored import StoredRun
from run_specialist.store.writer import Writer


class RunStore:
    """Opens journals in the store that was named, or the default one."""

    def __init__(self, store: str | None, *, needed: bool = False) -> None:
        """Take what `--store` takes; nothing is opened yet.

        needed: no run is begun without its store, not even without the default one.
        """
        self._store = store
        self._needed = needed
        self._writer: Writer | None = None
        self._only_one = Lock()

    async def journal(self, run_id: str) -> Journal | None:
        """Return where a new run puts its records; None where nothing is stored.

        Raises StoreUnusable for a store that was named or is needed; of the default one the run itself tells.
        """
        writer = await self._writing()
        return None if writer is None else writer.journal(run_id)

    async def claim(self, run: StoredRun) -> Journal | None:
        """Return where a stored run that goes on puts its records.

        Raises NotResumable where another process is at work on it.
        """
        writer = await self._writing()
        if writer is None:
            return None
        claiming = asyncio.ensure_future(asyncio.to_thread(writer.claim, run))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            if claiming.cancelled():
                raise
            # Taken over and never ended, nobody could take it up again while this process lives: so the run gets its
            # journal, and the cancellation strikes at its first wait.
            journal = await claiming
            if task := asyncio.current_task():
                task.uncancel()
                task.cancel()
            return journal

    async def load(self, run_id: str) -> StoredRun:
        """Return all that was kept of a run.

        run_id: the whole id, the beginning of one, or `last`.
        Raises RunNotFound, and NotResumable where it could not go on here.
        """
        found = self._place()
        if found is None:
            raise NotResumable("nothing is stored here: the store is `none`; name the one that holds the run")
        return await asyncio.to_thread(_load, found.url, run_id)

    async def aclose(self) -> None:
        """Wait until all is written, and close the store."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
            self._writer = None

    def _place(self) -> Location | None:
        found = place(self._store)
        return None if found.url == NONE else found

    async def _writing(self) -> Writer | None:
        found = self._place()
        if found is None:
            return None
        # A store that has to be waited for must not hold up other children.
        return await asyncio.to_thread(self._writer_into, found)

    def _writer_into(self, found: Location) -> Writer:
        with self._only_one:
            writer = self._writer
            # What was given up may work again; a default that never could be opened is not tried by each of many.
            if writer is not None and writer.is_given_up and (found.named or self._needed or writer.was_open):
                writer.close()
                writer = None
            if writer is None:
                writer = self._writer = Writer(found)
        if found.named or self._needed:
            writer.check()
        return writer


def _load(url: str, run_id: str) -> StoredRun:
    from run_specialist.store.reader import Store  # noqa: PLC0415 - a database library

    with Store(url) as store:
        run = store.load(run_id)
    if not Path(run.frozen["root"]).is_dir():
        raise NotResumable(f"{run.run_id} worked in {run.frozen['root']}, which is gone")
    return run
