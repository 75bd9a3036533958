"""Load the runs of an earlier eval, to be checked with the current checks."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from run_specialist.batch.done import Done
from run_specialist.batch.item import Item
from run_specialist.errors import RunNotFound, StoreMissing, UsageError
from run_specialist.evals.case import EvalSet
from run_specialist.evals.eval_plan import PlannedRun
from run_specialist.evals.eval_results import Variant
from run_specialist.evals.variants import Subject
from run_specialist.store.from_rows import outcome_of
from run_specialist.store.stored_batch import ItemResult

PREFIX = "eval-"
"""Beginning of the ids of evals."""
_RUN_ID = re.compile(r"(.+)-(\d{1,9})(?:\.(\d{1,9}))?")
"""Pattern with key, repeat and generation, see `run_id`."""


@dataclass(frozen=True)
class EarlierEval:
    """A stored eval."""

    eval_id: str
    variants: tuple[Variant, ...]
    items: tuple[ItemResult, ...]

    def planned(self, cases: EvalSet, variant: str, today: Variant) -> Iterator[tuple[PlannedRun, Done]]:
        """Yield the ended runs of a variant, for the cases whose question has not changed.

        variant: its name in this eval.
        today: the variant to which the runs belong now.
        """
        by_name = {one.name: one for one in cases.cases}
        # No request is sent, so neither the file nor its settings are needed.
        subject, asked = Subject(today, cast("Any", None)), cast("Any", None)
        for item in self.items:
            given = item.input if isinstance(item.input, Mapping) else {}
            case, found = by_name.get(str(given.get("case"))), _RUN_ID.fullmatch(item.run_id)
            if case is None or found is None or given.get("variant") != variant or case.question != item.question:
                continue
            if item.outcome is not None:
                run = PlannedRun(item.number, case, subject, int(found[2]), asked, found[1], int(found[3] or 1))
                done = Done(
                    Item(item.number, item.input, item.question, item.run_id), item.run_id, outcome_of(item.outcome)
                )
                yield run, done


def earlier_eval(name: str, store: str | None) -> EarlierEval | None:
    """Return the stored eval with this id or id prefix; None if there is none.

    store: URL of the store; None for the default one.
    Raises UsageError if the prefix matches several evals, or if the store cannot be read.
    """
    from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - as above

    where = place(store).url
    if where == NONE or not name.startswith(PREFIX) or name == PREFIX:
        return None
    try:
        with StoredBatches(where) as batches:
            found = batches.find(name)
            items = tuple(batches.items(found.batch_id))
    except StoreMissing:
        return None
    except RunNotFound as error:
        if "start with" in str(error):
            raise
        return None
    try:
        variants = tuple(
            Variant(one["name"], one["path"], one["digest"], one["settings"], bool(one.get("is_baseline")))
            for one in found.frozen["eval"]["variants"]
        )
    except (KeyError, TypeError):
        raise UsageError(f"{found.batch_id} was not stored as an eval") from None
    return EarlierEval(found.batch_id, variants, items)
