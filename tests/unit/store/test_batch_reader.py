"""Reading batches: counts by status, items, and finding a batch, on both databases."""

import gc
import tracemalloc

import pytest

from run_specialist.errors import RunNotFound
from run_specialist.store import batch_reader
from run_specialist.store.batch_reader import ENDPOINT_KINDS, ITEM_STATUSES, StoredBatches
from run_specialist.store.batches import BatchWriter, ItemStateChange, StoredBatch, StoredItem
from run_specialist.store.stored import BatchTotals
from tests.unit.store.finished_batches import EVERY_STATE, STARTED, TEMPLATE, item_of, keep_batch


def statuses(url, batch_id="b1", **how):
    """Return the status of each item by its number."""
    with StoredBatches(url) as store:
        return {item.number: item.status for item in store.items(batch_id, **how)}


def tally(url, batch_id="b1"):
    """Return the tally of a batch."""
    with StoredBatches(url) as store:
        return store.tally(batch_id)


def test_each_status_is_counted(store_url):
    """The status of an item is that of its run; without a run it is dead, failed with an error, or not run."""
    keep_batch(store_url, EVERY_STATE)
    found = tally(store_url)
    assert found.counts == {
        **dict.fromkeys(("answered", "landed", "partial", "aborted", "dead", "interrupted", "not run"), 1),
        "failed": 2,
    }
    assert list(found.counts) == [status for status in ITEM_STATUSES if status in found.counts]
    assert (found.items, found.runs, found.earlier, found.unknown_costs) == (9, 6, 0, 0)
    # An interrupted run has made no turn, the others one that cost a quarter.
    assert (found.cost_usd, found.tool_calls) == (1.25, 5)
    assert (found.started_at, found.ended_at) == (STARTED, STARTED + 64)
    assert found.worked_s == 300


def test_an_item_has_its_outcome(store_url):
    """An item has input, question, and the outcome and figures of its run; without a run its own error."""
    items = keep_batch(store_url, EVERY_STATE)
    with StoredBatches(store_url) as store:
        found = {item.run_id: item for item in store.items("b1")}
    answered, failed = found["b1-a"], found["b1-e"]
    assert (answered.input, answered.question) == (items[0].input, "What does a.md say about leaks?")
    assert (answered.outcome["status"], answered.outcome["answer"]) == ("answered", "a.md says that it leaks.")
    assert (answered.tool_calls, answered.cost_usd, answered.seconds, answered.error) == (1, 0.25, 60.0, None)
    assert (failed.outcome, failed.cost_usd, failed.seconds) == (None, None, None)
    assert failed.error == "{path} is not a column"
    assert found["b1-i"].outcome is None


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("kind", [*sorted(ENDPOINT_KINDS), "invalid_request", "internal", None])
def test_an_item_that_was_taken_back_is_not_run(store_url, kind):
    """A run that failed because of the endpoint counts as not run while its item waits, else as failed."""
    keep_batch(store_url, {name: {"status": "failed", "kind": kind} for name in "abc"})
    waits = "not run" if kind in ENDPOINT_KINDS else "failed"
    with BatchWriter(store_url) as book:
        book.mark("b1", [ItemStateChange("b1-b", "ended"), ItemStateChange("b1-c", "begun")])
    assert statuses(store_url) == {1: waits, 2: "failed", 3: "failed"}
    assert statuses(store_url, failures=True) == {
        number: "failed" for number in (1, 2, 3) if number > 1 or waits == "failed"
    }
    found = tally(store_url).counts
    assert found == ({"failed": 2, "not run": 1} if waits == "not run" else {"failed": 3})


def test_a_dead_item_is_dead_until_its_run_ends(store_url):
    """An item given up while its run is unfinished is dead; if the run ended after all, that is what counts."""
    keep_batch(store_url, {"a": {"status": "interrupted"}, "b": {"status": "answered"}})
    with BatchWriter(store_url) as book:
        book.mark("b1", [ItemStateChange("b1-a", "dead", "taken over 3 times"), ItemStateChange("b1-b", "dead")])
    assert statuses(store_url) == {1: "dead", 2: "answered"}
    assert tally(store_url).counts == {"answered": 1, "dead": 1}


def test_items_of_earlier_calls_are_not_listed(store_url):
    """Items that the newest call does not have are neither listed nor counted, but their cost is."""
    back = {"status": "failed", "kind": "quota"}
    keep_batch(store_url, {"a": {"status": "answered"}, "b": {"status": "answered"}, "back": back})
    with BatchWriter(store_url) as book:
        book.put(StoredBatch("b1", "looker", TEMPLATE, STARTED), [item_of("b1", 1, "b"), item_of("b1", 2, "c")])
    assert statuses(store_url) == {1: "answered", 2: "not run"}
    found = tally(store_url)
    assert (found.counts, found.earlier) == ({"answered": 1, "not run": 1}, 2)
    assert (found.cost_usd, found.runs) == (0.75, 3)


def test_failures_can_be_listed_alone(store_url):
    """The failures are the items that failed, were aborted, or are dead, by number."""
    keep_batch(store_url, EVERY_STATE)
    assert statuses(store_url, failures=True) == {4: "failed", 5: "aborted", 8: "failed", 9: "dead"}


def test_items_are_read_a_few_at_a_time(store_url, monkeypatch):
    """Items are read while they are used, in the order of their numbers, and never all together."""
    monkeypatch.setattr(batch_reader, "ITEMS_AT_ONCE", 50)
    with BatchWriter(store_url) as book:
        many = (StoredItem(f"b1-{number}", number, "x" * 5_000, "y" * 5_000) for number in range(1, 1_001))
        book.put(StoredBatch("b1", "looker", "?", 1.0), many)
    with StoredBatches(store_url) as store:
        next(store.items("b1"))
        gc.collect()
        tracemalloc.start()
        assert [item.number for item in store.items("b1")] == list(range(1, 1_001))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
        tracemalloc.stop()


def test_batches_are_listed(store_url):
    """Batches are listed newest first, all or those of one project, each with its own tally."""
    keep_batch(store_url, {"a": {"status": "answered"}}, "b1", project="/p", cost_limit=2.5, created_at=1.0)
    keep_batch(store_url, {"a": "not run", "b": "not run"}, "b2", project="/q", created_at=3.0)
    keep_batch(store_url, {}, "b3", created_at=2.0, model="opus")
    with StoredBatches(store_url) as store:
        assert [one.batch_id for one in store.listed()] == ["b2", "b3", "b1"]
        assert [one.batch_id for one in store.listed(limit=2)] == ["b2", "b3"]
        assert store.listed("/p") == [StoredBatch("b1", "looker", TEMPLATE, 1.0, project="/p", cost_limit=2.5)]
        found = store.tallies(["b1", "b2", "b3", "unknown"])
        assert [found[one].counts for one in found] == [{"answered": 1}, {"not run": 2}, {}, {}]
        assert found["b3"] == BatchTotals()


def test_a_batch_is_found(store_url):
    """A batch is found by its id, by a unique prefix, and the newest of a project as `last`."""
    for batch_id, project, at in (("b1", "/p", 2.0), ("b12", "/q", 1.0), ("c_", None, 0.5)):
        keep_batch(store_url, {"a": "not run"}, batch_id, project=project, created_at=at)
    with StoredBatches(store_url) as store:
        found = [store.find(*given).batch_id for given in (("b1",), ("b12",), ("c",), ("last",), ("last", "/q"))]
        assert found == ["b1", "b12", "c_", "b1", "b12"]
        for wrong, why in (
            ("b", "2 batch ids start with b: b1, b12; use more of the id"),
            ("%", "there is no batch %"),
            (" ", "the batch id is empty"),
        ):
            with pytest.raises(RunNotFound, match=f"^{why}"):
                store.find(wrong)
        with pytest.raises(RunNotFound, match="contains no batches of /r yet"):
            store.find("last", "/r")
