"""A batch on this host: a `Runner` for the root that the batch names, and the specialist's file."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from run_specialist.api.preview import effective_of
from run_specialist.api.runner import Runner
from run_specialist.config.project_model import server_of
from run_specialist.errors import UsageError
from run_specialist.fleet.frozen_batch import FrozenBatch
from run_specialist.fleet.roots import Root, find_root
from run_specialist.providers.choose import named_models, why_offline
from run_specialist.providers.chosen_models import check_usable
from run_specialist.providers.local.local_servers import WEIGHTS, prefix_of
from run_specialist.providers.model_names import check_spelling
from run_specialist.record.outcome import OFFLINE
from run_specialist.spawning.model_rule import ModelRule
from run_specialist.spawning.paths_check import check_paths
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.model_list import split_models
from run_specialist.specialist.problems import shown
from run_specialist.specialist.resolve import Data, resolve

if TYPE_CHECKING:
    from run_specialist.api.ended_run import EndedRun
    from run_specialist.batch.item_run import Lend
    from run_specialist.loop.run import Run


SEARCH_TIME = 5.0
"""Time limit of the search for a file that the specialist can read; after it the worker takes items anyway [s]."""


class BatchHere:
    """Takes up the runs of one batch."""

    def __init__(self, frozen: FrozenBatch, root: Path, store: str, *, trust: bool) -> None:
        """Prepare a Runner; nothing is started.

        root: the folder that the file tools may read.
        store: the PostgreSQL store of the queue.
        Raises UsageError for a file that the batch must not name.
        """
        self.frozen = frozen
        self._copies = tempfile.TemporaryDirectory(prefix="run-specialist-")
        try:
            here = Runner(root=root)
            self._allowed = here.models_allowed
            self._file = frozen.file_on_this_host(here.registry, root, Path(self._copies.name))
            by_file = self._file.specialist
            self._named = () if by_file is None or by_file.model is None else (by_file.model, *by_file.fallback_models)
            asked = frozen.model
            # Without its store a run must not continue: another worker may have taken it over by then.
            self._require_model = frozen.require_model or None
            self._runner = Runner(
                root=root,
                # The models of the file stay those of the file, which may need trust.
                model=None if asked is None or split_models(asked) == self._named else asked,
                store=store,
                on_lost="abort",
                trust=trust,
                require_model=self._require_model,
            )
        except BaseException:
            self._copies.cleanup()
            raise
        # Others may have written to the queue, so its settings are not those of a caller.
        self._data = Data(frozen.settings, lambda _: "its settings")

    @classmethod
    def found(
        cls, batch_id: str, content: Mapping[str, Any], roots: Mapping[str, Root], store: str, *, trust: bool
    ) -> Self:
        """Return a batch from its frozen values.

        roots: folders of this host by name.
        Raises RootMissing, or another UsageError for a batch that a worker cannot work on.
        """
        try:
            frozen = FrozenBatch.from_json(content)
        except UsageError as error:
            raise UsageError(f"batch {batch_id} was not made for a queue: {error}") from None
        root = find_root(roots, frozen.root, frozen.root_ids, batch_id)
        try:
            return cls(frozen, root, store, trust=trust)
        except UsageError as error:
            raise UsageError(f"batch {batch_id} cannot run here: {error}") from None

    async def check(self) -> None:
        """Check that this host has everything that the runs need; sends no request, imports nothing, starts no server.

        Raises UsageError if a file, an agent, a permission or the credentials are missing, or nothing can be read.
        """
        runner, file = self._runner, self._file
        settled = resolve(file, {}, data=self._data).settings
        self._check_models(file, settled)
        self._check_allowed()
        found = await effective_of(runner, file, {}, self.frozen.model, self._data)
        if found.cannot_run:
            raise UsageError("; ".join(found.cannot_run))
        # A longer search does not prove anything, and would block the loop of the worker, whose heartbeats then stop.
        seconds = min(settled.tool_timeout, SEARCH_TIME)
        await check_paths(file, settled.model_copy(update={"tool_timeout": seconds}), runner.root)

    def _check_models(self, file: SpecialistFile, settled: Specialist) -> None:
        """Check that the first model of the batch, and those of the agents that the file lists, can be asked here.

        The environment of the worker chooses no model, and a model that cannot be asked is not replaced.
        """
        asked = self.frozen.model
        if asked is None and settled.model in {None, "inherit"}:
            raise UsageError("its model was not fixed when it was put into the queue; repeat the command that did so")
        first = named_models(asked, settled.model, None, settled.fallback_models)[0]
        check_spelling(first)
        check_usable(first)
        if first == OFFLINE:
            ModelRule.of(self._require_model).check(file, settled, why_offline(asked, settled.model))
        registry, to_check, checked = self._runner.registry, [settled], set()
        while to_check:
            for name in to_check.pop().agents:
                if name == "*" or name in checked:
                    continue
                checked.add(name)
                agent = registry.find(name, file).specialist
                if agent is not None:
                    to_check.append(agent)
                    if agent.model not in {None, "inherit"}:
                        check_usable(named_models(None, agent.model)[0])

    def _check_allowed(self) -> None:
        """Raise UsageError for a model that neither the file nor this host names, unless it is of the same server."""
        asked = self.frozen.model
        if asked is None or split_models(asked) == self._named:
            return
        servers = {server_of(model) for model in self._allowed} - {WEIGHTS}
        for model in split_models(asked):
            is_of_file = model in self._named and prefix_of(model) is None
            if not is_of_file and model not in self._allowed and server_of(model) not in servers:
                raise UsageError(f"the model {shown(model)} is not allowed here; name it in SPECIALIST_MODEL")

    async def take_up(
        self, run_id: str, question: str, retry: Sequence[str], lend: "Lend | None" = None
    ) -> "Run | EndedRun":
        """Begin or resume the run of an item, as `Runner.take_up` does."""
        asked = self._runner.batches.asked(self._file, question, {}, self._data)
        return await self._runner.batches.take_up(asked, run_id, retry, lend)

    async def aclose(self) -> None:
        """Close connections, and remove the copy of the file."""
        await self._runner.aclose()
        self._copies.cleanup()
