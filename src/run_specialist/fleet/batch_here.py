"""A batch on this host: a `Runner` for the root that the batch names, and the specialist's file."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from run_specialist.api.preview import effective_of
from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.fleet.frozen_batch import FrozenBatch
from run_specialist.spawning.paths_check import check_paths
from run_specialist.specialist.resolve import resolve

if TYPE_CHECKING:
    from run_specialist.api.ended_run import EndedRun
    from run_specialist.batch.item_run import Lend
    from run_specialist.loop.run import Run


SEARCH_TIME = 5.0
"""Time limit of the search for a file that the specialist can read; after it the worker takes items anyway [s]."""


class RootMissing(UsageError):
    """This worker does not have the root of a batch."""


class BatchHere:
    """Takes up the runs of one batch."""

    def __init__(self, frozen: FrozenBatch, root: Path, store: str, *, trust: bool) -> None:
        """Prepare a Runner; nothing is started.

        root: the folder that the file tools may read.
        store: the PostgreSQL store of the queue.
        """
        self.frozen = frozen
        self._copies = tempfile.TemporaryDirectory(prefix="run-specialist-")
        self._file = frozen.file_on_this_host(root, Path(self._copies.name))
        # Without its store a run must not continue: another worker may have taken it over by then.
        self._runner = Runner(root=root, model=frozen.model, store=store, on_lost="abort", trust=trust)

    @classmethod
    def found(
        cls, batch_id: str, content: Mapping[str, Any], roots: Mapping[str, Path], store: str, *, trust: bool
    ) -> Self:
        """Return a batch from its frozen values.

        roots: folders of this host by name.
        Raises RootMissing, or another UsageError for a batch that a worker cannot work on.
        """
        try:
            frozen = FrozenBatch.from_json(content)
        except (KeyError, TypeError) as error:
            raise UsageError(f"batch {batch_id} was not made for a queue, {error} is missing") from None
        root = roots.get(frozen.root)
        if root is None:
            known = ", ".join(sorted(roots)) or "none"
            raise RootMissing(
                f"batch {batch_id} needs the root {frozen.root}, and this worker has {known}; "
                f"start it with --root {frozen.root}=PATH"
            )
        return cls(frozen, root, store, trust=trust)

    async def check(self) -> None:
        """Check that this host has everything that the runs need; sends no request, imports nothing, starts no server.

        Raises UsageError if a file, an agent, a permission or the credentials are missing, or nothing can be read.
        """
        runner, settings = self._runner, dict(self.frozen.settings)
        file = runner.registry.find(str(self._file))
        found = await effective_of(runner, file, settings)
        if found.cannot_run:
            raise UsageError("; ".join(found.cannot_run))
        settled = resolve(file, settings).settings
        # A longer search does not prove anything, and would block the loop of the worker, whose heartbeats then stop.
        seconds = min(settled.tool_timeout, SEARCH_TIME)
        await check_paths(file, settled.model_copy(update={"tool_timeout": seconds}), runner.root)

    async def take_up(
        self, run_id: str, question: str, retry: Sequence[str], lend: "Lend | None" = None
    ) -> "Run | EndedRun":
        """Begin or resume the run of an item, as `Runner.take_up` does."""
        return await self._runner.take_up(run_id, self._file, question, retry=retry, lend=lend, **self.frozen.settings)

    async def aclose(self) -> None:
        """Close connections, and remove the copy of the file."""
        await self._runner.aclose()
        self._copies.cleanup()
