"""Deleting batches, and the runs of batches."""

import pytest

from run_specialist.errors import UsageError
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem
from run_specialist.store.reader import Store, delete_runs
from tests.unit.store.finished_runs import keep, run_of, write
from tests.unit.store.records import ask, begun, counts

ITEMS = "select run_id from items order by run_id"


def batch_of(url, batch_id, names, state="ended"):
    """Store a batch with some items, without their runs."""
    with BatchWriter(url) as book:
        items = (StoredItem(f"{batch_id}-{name}", number, name, "?") for number, name in enumerate(names, 1))
        book.put(StoredBatch(batch_id, "looker", "?", 1.0), items)
        book.set_state(batch_id, state)


def delete(url, *ids):
    """Delete runs, and return the batches and items that are left."""
    with Store(url) as store:
        store.delete(ids)
    return [one for (one,) in ask(url, "select batch_id from batches order by batch_id") + ask(url, ITEMS)]


def test_a_deleted_run_leaves_its_batch(store_url):
    """With a run its item is deleted, whose texts are data of the run; the batch keeps the others."""
    batch_of(store_url, "b1", "abc")
    keep(store_url, **{run_id: run_of(run_id) for run_id in ("b1-a", "b1-b")})
    assert delete(store_url, "b1-a") == ["b1", "b1-b", "b1-c"]


def test_a_batch_without_runs_disappears(store_url):
    """With the last of its runs an ended batch is deleted with its items; other batches stay unchanged."""
    batch_of(store_url, "b1", "abc")
    batch_of(store_url, "b2", "a")
    keep(store_url, **{run_id: run_of(run_id) for run_id in ("b1-a", "b1-b", "other")})
    assert delete(store_url, "b1-a", "b1-b") == ["b2", "b2-a"]
    assert counts(store_url)["runs"] == 1


@pytest.mark.parametrize("state", ["open", "paused"])
def test_a_batch_at_work_is_kept_while_it_has_items(store_url, state):
    """A batch in progress may have no runs for a while; it is deleted with its last item."""
    batch_of(store_url, "b1", "abc", state)
    keep(store_url, **{run_id: run_of(run_id) for run_id in ("b1-a", "b1-b")})
    assert delete(store_url, "b1-a", "b1-b") == ["b1", "b1-c"]
    keep(store_url, **{"b1-c": run_of("b1-c")})
    assert delete(store_url, "b1-c") == []


def test_a_batch_with_a_running_run_is_not_deleted(store_url, make_writer):
    """While one of its runs is in progress, no part of a batch is deleted."""
    batch_of(store_url, "b1", "ab", "open")
    write(make_writer(store_url), **{"b1-a": run_of("b1-a"), "b1-b": begun("b1-b")})
    with pytest.raises(UsageError, match="b1-b is still running"):
        delete_runs(store_url, (), ["b1"])
    assert ask(store_url, ITEMS) == [("b1-a",), ("b1-b",)]
    assert counts(store_url)["runs"] == 2
