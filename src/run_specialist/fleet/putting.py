"""Put a batch into the queue: the same batch as in `Runner.map`, in a form that any host can work on."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.batch import item as batch_item
from run_specialist.batch.item import Input, InputRecord, keyed
from run_specialist.batch.items.question_template import Template, asked
from run_specialist.errors import UsageError
from run_specialist.fleet.control import Control
from run_specialist.fleet.frozen_batch import freeze
from run_specialist.specialist.project import project_path
from run_specialist.specialist.resolve import Data, resolve
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem


@dataclass(frozen=True, slots=True)
class QueuedBatch:
    """A batch in the queue."""

    batch_id: str
    items: int
    added: int
    """Number of items that were not in the queue yet, without those that have ended."""


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
) -> QueuedBatch:
    """Put a batch into the queue; calling it again adds only missing items.

    url: a PostgreSQL store, with a queue.
    items: questions, or fields by name for `question`.
    question: a template such as `What does {path} say?`.
    model: the model of all runs; None = that of the file, otherwise of the worker.
    settings: keys of the file to override in every run.
    source: name of the source of the items.
    batch: the id; None for the one that `Runner.map` has for the same call.
    at_once: how many items the whole fleet may work on at the same time; 0 = any number.
    cost_limit: of all items together, earlier calls included; None = no limit [USD].
    typical_cost: cost of an item, from past runs; 0 = unknown [USD].
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
    frozen = freeze(file, runner.root, settings, model, at_once)
    frozen = replace(frozen, typical_cost=typical_cost)
    project = project_path(runner.root)
    row = StoredBatch(name, file.name, question or "", time.time(), frozen.as_json(), model, project, cost_limit)
    template = None if question is None else Template(question)
    count = await asyncio.to_thread(_write, url, row, _rows(name, keyed(asked(items, template))))
    async with Control(url) as control:
        return QueuedBatch(name, count, await control.put(name))


def _rows(name: str, items: Iterable[batch_item.Item]) -> Iterator[StoredItem]:
    return (StoredItem(f"{name}-{one.key}", one.number, one.input, one.question) for one in items)


def _write(url: str, batch: StoredBatch, items: Iterable[StoredItem]) -> int:
    with BatchWriter(url) as writer:
        return writer.put(batch, items)
