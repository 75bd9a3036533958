"""A batch on this host: a `Runner` for the root that the batch names, and the specialist's file."""

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from run_specialist.api.preview import effective_of
from run_specialist.api.runner import Runner
from run_specialist.config.project_model import server_of
from run_specialist.errors import UsageError
from run_specialist.fleet.frozen_batch import FrozenBatch
from run_specialist.providers.local.local_servers import WEIGHTS, prefix_of
from run_specialist.spawning.paths_check import check_paths
from run_specialist.specialist.model_list import split_models
from run_specialist.specialist.problems import shown
from run_specialist.specialist.resolve import Data, resolve

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
        Raises UsageError for a file or a model that the batch must not name.
        """
        self.frozen = frozen
        self._copies = tempfile.TemporaryDirectory(prefix="run-specialist-")
        here = Runner(root=root)
        try:
            self._file = frozen.file_on_this_host(here.registry, root, Path(self._copies.name))
            model = self._model(here.models_allowed)
        except UsageError:
            self._copies.cleanup()
            raise
        # Without its store a run must not continue: another worker may have taken it over by then.
        self._runner = Runner(root=root, model=model, store=store, on_lost="abort", trust=trust)
        # Others may have written to the queue, so its settings are not those of a caller.
        self._data = Data(frozen.settings, lambda _: "its settings")

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
        try:
            return cls(frozen, root, store, trust=trust)
        except UsageError as error:
            raise UsageError(f"batch {batch_id} cannot run here: {error}") from None

    async def check(self) -> None:
        """Check that this host has everything that the runs need; sends no request, imports nothing, starts no server.

        Raises UsageError if a file, an agent, a permission or the credentials are missing, or nothing can be read.
        """
        runner, file = self._runner, self._file
        found = await effective_of(runner, file, {}, self._data)
        if found.cannot_run:
            raise UsageError("; ".join(found.cannot_run))
        settled = resolve(file, {}, data=self._data).settings
        # A longer search does not prove anything, and would block the loop of the worker, whose heartbeats then stop.
        seconds = min(settled.tool_timeout, SEARCH_TIME)
        await check_paths(file, settled.model_copy(update={"tool_timeout": seconds}), runner.root)

    async def take_up(
        self, run_id: str, question: str, retry: Sequence[str], lend: "Lend | None" = None
    ) -> "Run | EndedRun":
        """Begin or resume the run of an item, as `Runner.take_up` does."""
        asked = self._runner.batches.asked(self._file, question, {}, self._data)
        return await self._runner.batches.take_up(asked, run_id, retry, lend)

    def _model(self, allowed: Collection[str]) -> str | None:
        """Return the model of the batch; None for that of the file, which may need trust.

        allowed: the models that this host names.
        Raises UsageError for a model that neither the file nor this host names, unless it is of the same server.
        """
        by_file, asked = self._file.specialist, self.frozen.model
        named = () if by_file is None or by_file.model is None else (by_file.model, *by_file.fallback_models)
        if asked is None or split_models(asked) == named:
            return None
        servers = {server_of(model) for model in allowed} - {WEIGHTS}
        for model in split_models(asked):
            is_of_file = model in named and prefix_of(model) is None
            if not is_of_file and model not in allowed and server_of(model) not in servers:
                raise UsageError(f"the model {shown(model)} is not allowed here; name it in SPECIALIST_MODEL")
        return asked

    async def aclose(self) -> None:
        """Close connections, and remove the copy of the file."""
        await self._runner.aclose()
        self._copies.cleanup()
