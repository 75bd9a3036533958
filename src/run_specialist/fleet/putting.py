"""Put a batch into the queue: the same batch as in `Runner.map`, in a form that any host can work on."""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.batch import item as batch_item
from run_specialist.batch.item import Input, InputRecord, keyed
from run_specialist.batch.items.question_template import Template, asked
from run_specialist.errors import RunNotFound, StoreUnusable, UsageError
from run_specialist.fleet.control import Control
from run_specialist.fleet.frozen_batch import freeze
from run_specialist.providers.choose import named_models, why_offline
from run_specialist.spawning.model_rule import ModelRule
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.project import project_path
from run_specialist.specialist.resolve import Data, resolve
from run_specialist.store.batch_reader import StoredBatches
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem


@dataclass(frozen=True, slots=True)
class QueuedBatch:
    """A batch in the queue."""

    batch_id: str
    items: int
    added: int
    """Number of items that were not in the queue yet, without those that have ended."""
    kept_model: str | None = None
    """The model of an earlier call, which the batch keeps although this host would ask another one; None otherwise."""


async def put(  # noqa: PLR0913 - what a call of `map` has
    runner: Runner,
    url: str,
    specialist: str,
    items: Iterable[Input | InputRecord],
    *,
    question: str | None = None,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    source: str = "",
    batch: str | None = None,
    at_once: int = 0,
    cost_limit: float | None = None,
    typical_cost: float = 0.0,
    require_model: bool | None = None,
    priority: int | None = None,
) -> QueuedBatch:
    """Put a batch into the queue; calling it again adds only missing items.

    url: a PostgreSQL store, with a queue.
    items: questions, or fields by name for `question`.
    question: a template such as `What does {path} say?`.
    model: the model of all runs; None = that of the file, otherwise the one that a run of this host would have. It
        stays the model of the batch, whatever the workers or later calls have.
    settings: keys of the file to override in every run.
    source: name of the source of the items.
    batch: the id; None for the one that `Runner.map` has for the same call.
    at_once: how many items the whole fleet may work on at the same time; 0 = any number.
    cost_limit: of all items together, earlier calls included; None = no limit [USD].
    typical_cost: cost of an item, from past runs; 0 = unknown [USD].
    require_model: refuse to answer offline, on all workers; None = as SPECIALIST_REQUIRE_MODEL says here.
    priority: batches with a higher one are taken first; None = 0, or that of an earlier call.
    Raises UsageError.
    """
    file = runner.registry.find(specialist)
    if not file.digest:
        raise UsageError(f"{file.path}: a batch for a queue needs a specialist with a file")
    given = dict(settings or {})
    named: dict[str, Any] = {} if batch is None else {"batch": batch}
    name = runner.map(specialist, (), question, source=source, **named, **given).id
    # The config files of this host are not read by the workers.
    defaults = {key: default.value for key, default in file.defaults.items() if key not in file.lines}
    settings = {**defaults, **given}
    # A worker would refuse the batch, because others may write to the queue.
    resolve(file, {}, data=Data(settings, lambda _: "--queue"))
    before = await asyncio.to_thread(_frozen_before, url, name)
    rule, settled, default = ModelRule.of(require_model), resolve(file, settings).settings, runner.default_model
    kept = before.get("model") if model is None else None
    fixed = _fixed_model(file, settled, model or kept, default, rule)
    frozen = replace(
        freeze(file, runner.root, settings, fixed, at_once),
        typical_cost=typical_cost,
        require_model=rule.is_required or before.get("require_model") is True,
        priority=before.get("priority", 0) if priority is None else priority,
    )
    project = project_path(runner.root)
    row = StoredBatch(name, file.name, question or "", time.time(), frozen.as_json(), model, project, cost_limit)
    template = None if question is None else Template(question)
    count = await asyncio.to_thread(_write, url, row, _rows(name, keyed(asked(items, template))))
    async with Control(url) as control:
        added = await control.put(name)
    is_other = kept is not None and kept != ", ".join(named_models(None, settled.model, default))
    return QueuedBatch(name, count, added, kept if is_other else None)


def _fixed_model(
    file: SpecialistFile, settings: Specialist, model: str | None, default: str | None, rule: ModelRule
) -> str | None:
    """Return the model that all workers use; None for the one that the file names.

    Raises UsageError if no model is named and this host has no credentials, or if a required model is missing.
    """
    if why := why_offline(model, settings.model, default):
        rule.check(file, settings, why)
    if model is not None or settings.model not in {None, "inherit"}:
        return model
    is_named = bool(os.environ.get("SPECIALIST_MODEL") or default)
    if why and not is_named:
        raise UsageError(
            f"{settings.name}: {why}; the workers have their own environment, so a batch in the queue needs a named "
            "model: use `model`"
        )
    return ", ".join(named_models(None, None, default))


def _frozen_before(url: str, batch_id: str) -> Mapping[str, Any]:
    """Return the frozen values of an earlier call; empty if there was none, or if they cannot be read."""
    with suppress(StoreUnusable, RunNotFound), StoredBatches(url) as stored:
        found = stored.find(batch_id)
        if found.batch_id == batch_id and "root" in found.frozen:
            return found.frozen
    return {}


def _rows(name: str, items: Iterable[batch_item.Item]) -> Iterator[StoredItem]:
    return (StoredItem(f"{name}-{one.key}", one.number, one.input, one.question) for one in items)


def _write(url: str, batch: StoredBatch, items: Iterable[StoredItem]) -> int:
    with BatchWriter(url) as writer:
        return writer.put(batch, items)
