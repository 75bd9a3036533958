"""Make the batches of a `Runner`."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

from run_specialist.api.run_maker import RunMaker, RunRequest, checked_statuses
from run_specialist.batch import questions
from run_specialist.batch.batch import ENDPOINT, Batch, Bounds
from run_specialist.batch.item import Input, InputRecord, Item, Lend
from run_specialist.batch.record import BatchRecord, batch_id, checked_id
from run_specialist.loop.run import EndedRun, Run
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.spawner import check_price
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.project import project_path
from run_specialist.store.batches import StoredBatch

ANY = "?"
"""A placeholder for the question of an item while the settings of all items are checked."""


@dataclass(frozen=True)
class BatchRuns:
    """The runs of the items of a batch, made by a `Runner`."""

    maker: RunMaker
    asked: Callable[[Item], RunRequest]
    """Returns the specialist and the question for an item."""
    kinds: Sequence[RunRequest]
    """Items that differ in more than their question; one of each kind is checked before the first item begins."""
    retry: frozenset[str]
    """Statuses of earlier outcomes that are resumed."""
    has_cost_limit: bool

    async def check(self) -> None:
        """Raise UsageError if no run can begin, for any item."""
        for asked in self.kinds:
            provider = await self.maker.provider(asked)
            if self.has_cost_limit:
                check_price(provider)

    async def take_up(self, item: Item, run_id: str, lend: Lend, *, is_new: bool) -> Run | EndedRun:
        """Return the run of an item: a new one, a resumed one, or one that has ended, with its outcome."""
        asked = replace(self.asked(item), lend=lend if self.has_cost_limit else None)
        run = await self.maker.take_up(asked, run_id, [*self.retry], is_new=is_new)
        if isinstance(run, EndedRun) and _is_unfinished(run.ended):
            return await self.maker.take_up(asked, run_id, [run.ended.status])
        return run

    async def ended(self, run_id: str, *, however: bool = False) -> Outcome | None:
        """Return the outcome of a run that will not be resumed, or any outcome; None for any other run."""
        known = await self.maker.store.look(run_id)
        outcome = None if known is None else known.ended
        if outcome is None or however:
            return outcome
        return None if _is_unfinished(outcome) or outcome.status in self.retry else outcome


class BatchMaker:
    """Makes batches, and closes those that were not closed."""

    def __init__(self, maker: RunMaker) -> None:
        self._maker = maker
        self._open: WeakSet[Batch] = WeakSet()

    def make(
        self,
        specialist: str | Path | Specialist,
        items: Iterable[Input | InputRecord],
        question: str | None,
        options: Mapping[str, Any],
    ) -> Batch:
        """Return a batch; see `Runner.map`.

        options: `MapOptions`.
        """
        given, maker = dict(options), self._maker
        bounds = Bounds(**{name: given.pop(name) for name in Bounds.__dataclass_fields__ if name in given})
        retry, named = given.pop("retry", ()), given.pop("batch", None)
        source, model = str(given.pop("source", "")), given.get("model")
        template = None if question is None else questions.Template(question)
        asked = maker.asked(specialist, ANY, given)
        given.pop("model", None)
        project, model = project_path(maker.root), model or maker.models.model
        # Settings may also be from config files.
        settings = asked.settings.model_dump_json(by_alias=True, exclude_unset=True)
        parts = (asked.file.name, asked.file.digest, settings, model)
        name = batch_id(project, parts, question, source) if named is None else checked_id(named)
        frozen = {"file": str(asked.file.path), "digest": asked.file.digest, "given": given, "source": source}
        limit = bounds.cost_limit
        row = StoredBatch(name, asked.settings.name, question or "", time.time(), frozen, model, project, limit)
        statuses, has_limit = checked_statuses(retry), limit is not None
        runs = BatchRuns(maker, lambda item: replace(asked, question=item.question), [asked], statuses, has_limit)
        # An iterator can be read only once.
        total = len(items) if isinstance(items, Sized) and not hasattr(items, "__next__") else None
        record = BatchRecord(row, maker.store.opened_url)
        batch = Batch(name, lambda: questions.asked(items, template), runs, bounds, total=total, record=record)
        self._open.add(batch)
        return batch

    def make_of(self, row: StoredBatch, items: Sequence[Item], asked: Sequence[RunRequest], bounds: Bounds) -> Batch:
        """Return a batch whose items may differ in their specialists, settings and models.

        row: how the batch is stored.
        items: numbered from 1; their keys are the ids of their runs.
        asked: what is asked about each of the items.
        """
        kinds = {(one.file.path, one.file.digest, one.model, one.settings.model): one for one in asked}
        has_limit, maker = bounds.cost_limit is not None, self._maker
        runs = BatchRuns(maker, lambda item: asked[item.number - 1], [*kinds.values()], frozenset(), has_limit)
        record = BatchRecord(row, maker.store.opened_url)
        batch = Batch(
            row.batch_id, lambda: items, runs, bounds, total=len(items), record=record, run_id=lambda item: item.key
        )
        self._open.add(batch)
        return batch

    def model_of(self, asked: RunRequest) -> str:
        """Return the id of the model that a new run would use; contacts nothing."""
        return self._maker.models.model_id(asked.settings, asked.model)

    async def aclose(self) -> None:
        """Abort the running items of all batches, and wait until they have ended."""
        await asyncio.gather(*(batch.aclose() for batch in [*self._open]))


def _is_unfinished(outcome: Outcome) -> bool:
    """Return whether an outcome does not count for its item: its run was aborted, or failed because of the endpoint."""
    return outcome.status == "aborted" or (outcome.status == "failed" and outcome.error_kind in ENDPOINT)
