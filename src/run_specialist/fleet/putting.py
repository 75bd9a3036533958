"""Put a batch into the queue: the same batch as a call of `Runner.map`, frozen so that any host can work on it."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.batch import item as batch_item
from run_specialist.batch.batch_id import batch_id, checked_id
from run_specialist.batch.item import Given, Input, keyed
from run_specialist.batch.question import Template, asked
from run_specialist.errors import UsageError
from run_specialist.fleet.control import Control
from run_specialist.fleet.frozen_batch import freeze
from run_specialist.specialist.project import project_path
from run_specialist.specialist.resolve import resolve
from run_specialist.store.batches import Batch, BatchWriter, Item


async def put(  # noqa: PLR0913 - what a call of `map` has
    runner: Runner,
    url: str,
    specialist: str,
    items: Iterable[Input | Given],
    *,
    question: str | None = None,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    source: str = "",
    batch: str | None = None,
    at_once: int = 0,
) -> tuple[str, int, int]:
    """Put a batch into the queue; return its id, how many items it has, and how many were not in the queue yet.

    Calling it again puts only what is missing: items that have ended are left out.
    url: a PostgreSQL store, with a queue.
    items: questions, or fields by name for `question`.
    question: a template such as `What does {path} say?`.
    model: None = that of the file, or of the worker.
    settings: keys of the file to override in every run.
    source: where the items are from.
    batch: the id; None for one made from the other arguments.
    at_once: how many items the whole fleet may work on at the same time; 0 = any number.
    Raises UsageError.
    """
    file = runner.registry.find(specialist)
    if not file.digest:
        raise UsageError(f"{file.path}: a batch for a queue needs a specialist with a file")
    given = dict(settings or {})
    settled = resolve(file, {**given, **({} if model is None else {"model": model})}).settings
    template = None if question is None else Template(question)
    project = project_path(runner.root)
    parts = (file.name, file.digest, settled.model_dump_json(by_alias=True, exclude_unset=True), model)
    name = batch_id(project, parts, question, source) if batch is None else checked_id(batch)
    # The config files of this host are not read by the workers.
    defaults = {key: default.value for key, default in file.defaults.items() if key not in file.lines}
    frozen = freeze(file, runner.root, {**defaults, **given}, model, at_once)
    row = Batch(name, settled.name, question or "", time.time(), frozen.as_json(), model, project)
    rows = _rows(name, keyed(asked(items, template)))
    count = await asyncio.to_thread(_write, url, row, rows)
    async with Control(url) as control:
        return name, count, await control.put(name)


def _rows(name: str, items: Iterable[batch_item.Item]) -> Iterator[Item]:
    return (Item(f"{name}-{one.key}", one.number, one.input, one.question) for one in items)


def _write(url: str, batch: Batch, items: Iterable[Item]) -> int:
    with BatchWriter(url) as writer:
        return writer.put(batch, items)
