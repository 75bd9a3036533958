"""Listings without the runs of batches, and of the runs of one batch, on both databases."""

import pytest

from run_specialist.store.reader import Store
from run_specialist.store.selection import Selection
from tests.unit.store.finished_batches import keep_batch
from tests.unit.store.finished_runs import keep, run_of


@pytest.fixture
def store(store_url):
    """Return a store with two batches, runs below one of them, and an ordinary run with a child."""
    keep_batch(store_url, {"a": {"status": "answered"}, "b": {"status": "failed"}, "c": "not run"}, "b1")
    keep_batch(store_url, {"a": {"status": "answered"}}, "b2")
    keep(
        store_url,
        child=run_of("child", 5.0, parent_id="b1-a"),
        grandchild=run_of("grandchild", 6.0, parent_id="child", status="failed"),
        alone=run_of("alone", 7.0),
        below=run_of("below", 8.0, parent_id="alone"),
    )
    with Store(store_url) as opened:
        yield opened


def ids(found):
    """Return the ids of runs."""
    return {one.run_id for one in found}


@pytest.mark.parametrize("limit", [None, 10, 1])
def test_runs_of_batches_and_those_below_are_left_out(store, limit):
    """Left out are the runs of batches and all runs below them, at any depth, with a limit and without."""
    assert ids(store.trees(Selection(without_batches=True), limit)) == {"alone", "below"}
    assert ids(store.active_since(Selection(without_batches=True), 0.0)) == {"alone", "below"}
    assert len(store.trees(Selection())) == 7


def test_the_runs_that_are_left_out_are_counted(store):
    """The count has the runs of batches that match the other filters, without those below them."""
    assert store.count_left_out(Selection(without_batches=True)) == 3
    assert store.count_left_out(Selection(status="failed", without_batches=True)) == 1
    assert store.count_left_out(Selection(specialist="unknown", without_batches=True)) == 0
    assert ids(store.trees(Selection(status="failed", without_batches=True))) == set()


def test_the_runs_of_a_batch_are_selected(store):
    """The runs of one batch are those of its items, without runs below them; other filters apply too."""
    assert ids(store.trees(Selection(batch="b1"))) == {"b1-a", "b1-b"}
    assert ids(store.trees(Selection(batch="b1", status="failed"), 5)) == {"b1-b"}
    assert ids(store.trees(Selection(batch="b"))) == set()
