"""Helpers to store batches whose items have runs in any state."""

from contextlib import closing
from dataclasses import replace

from run_specialist.record.outcome import Evidence
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem
from run_specialist.store.writer import Writer
from tests.unit.store import finished_runs
from tests.unit.store.records import begun, nowhere

TEMPLATE = "What does {path} say about leaks?"
STARTED = 1_795_348_800.0
"""2026-11-22, 12:00 UTC."""


def item_of(batch_id, number, name):
    """Return an item whose input is the path of a file."""
    return StoredItem(f"{batch_id}-{name}", number, {"path": f"{name}.md"}, TEMPLATE.format(path=f"{name}.md"))


def records_of(item, status, at=STARTED, kind=None, error=None, answer=None, frozen=None, **changed):
    """Return the records of an item's run; `interrupted` if it has not ended.

    kind, error: of a failure.
    """
    changed = {"question": item.question, "frozen": frozen or {"system": "Look."}} | changed
    if status == "interrupted":
        opened, *others = begun(item.run_id)
        return [replace(opened, at=at, **changed), *others]
    *said, last, told = finished_runs.run_of(item.run_id, at, status=status, **changed)
    found = (Evidence(f"{item.input['path']}:3", "It leaks.", True), Evidence("other.md:1", "It does not.", False))
    made = replace(
        last.outcome,
        answer=f"{item.input['path']} says that it leaks." if answer is None else answer,
        evidence=found if status in {"answered", "landed"} else (),
        error_kind=kind,
        error=error,
        warnings=(error,) if error else (),
        duration_s=60.0,
    )
    return [*said, replace(last, outcome=made), told]


def keep_batch(url, states, batch_id="b1", location=None, frozen=None, **of_batch):
    """Store a batch with one item for each entry, and end the process that wrote its runs.

    states: by name of the item, `not run`, `dead`, an error without a run, or the arguments of `records_of`.
    Returns the items.
    """
    items = [item_of(batch_id, number, name) for number, name in enumerate(states, 1)]
    values = {"specialist": "looker", "question": TEMPLATE, "created_at": STARTED} | of_batch
    marks, runs = [], {}
    for item, (position, state) in zip(items, enumerate(states.values()), strict=True):
        if isinstance(state, dict):
            runs[item.run_id] = records_of(item, at=STARTED + position, frozen=frozen, **state)
        elif state == "dead":
            marks.append((item.run_id, "dead", "taken over 3 times without a new turn"))
        elif state != "not run":
            marks.append((item.run_id, "ended", state))
    with BatchWriter(url) as book:
        book.put(StoredBatch(batch_id, **values), items)
        for mark in marks:
            book.mark(batch_id, *mark)
    if runs:
        with closing(Writer(location or nowhere(url))) as writer:
            finished_runs.write(writer, **runs)
    return items


EVERY_STATE = {
    "a": {"status": "answered"},
    "l": {"status": "landed"},
    "p": {"status": "partial"},
    "f": {"status": "failed", "kind": "invalid_request", "error": "the model refused the request"},
    "x": {"status": "aborted"},
    "i": {"status": "interrupted"},
    "n": "not run",
    "e": "{path} is not a column",
    "d": "dead",
}
"""One item of each kind."""
