"""Writing batches and their items."""

import tracemalloc

import pytest

from run_specialist.errors import StoreUnusable
from run_specialist.store import batches
from run_specialist.store.base import Backoff, StoreOutage
from run_specialist.store.batches import BatchWriter, ItemStateChange, StoredBatch, StoredItem
from tests.unit.store.finished_runs import keep, run_of
from tests.unit.store.records import ask, unpacked

BATCH = StoredBatch("b1", "looker", "What does {input} say?", 5.0, {"file": "content"}, cost_limit=2.5, project="/p")
NUMBERED = "select run_id, number, state, takeovers from items order by run_id"


def item(name, number):
    """Return an item whose run is named by its input."""
    return StoredItem(f"b1-{name}", number, name, f"What does {name} say?")


@pytest.fixture
def book(store_url):
    """Return a writer of batches in a new store, once on each kind of database."""
    with BatchWriter(store_url) as opened:
        yield opened


def test_a_batch_and_its_items_are_stored(store_url, book):
    """Each value of a batch and of its items is in its column."""
    assert book.put(BATCH, [item("a", 1), StoredItem("b1-x", 2, {"é": [1, None]}, "\0\udcff")]) == 2
    assert ask(store_url, "select specialist, model, project, created_at, cost_limit, state from batches") == [
        ("looker", None, "/p", 5.0, 2.5, "open")
    ]
    ((question, frozen, reason),) = ask(store_url, "select question, frozen, reason from batches")
    assert [unpacked(one) for one in (question, frozen, reason)] == [BATCH.question, '{"file":"content"}', None]
    assert ask(store_url, NUMBERED) == [("b1-a", 1, "waiting", 0), ("b1-x", 2, "waiting", 0)]
    texts = ask(store_url, "select input, question from items order by number")
    assert [tuple(map(unpacked, row)) for row in texts] == [
        ('"a"', "What does a say?"),
        ('{"é":[1,null]}', "\0\udcff"),
    ]


def test_the_same_call_again_changes_nothing(store_url, book):
    """A repeated call keeps numbers, states, and the time of the first call."""
    book.put(BATCH, [item("a", 1), item("b", 2)])
    book.mark("b1", [ItemStateChange("b1-a", "ended", "no such file")])
    before = ask(store_url, "select * from items order by run_id")
    book.put(StoredBatch("b1", "looker", "What does {input} say?", 99.0), [item("a", 1), item("b", 2)])
    assert ask(store_url, "select * from items order by run_id") == before
    assert ask(store_url, "select created_at, cost_limit from batches") == [(5.0, None)]


def test_a_changed_call_gives_new_numbers(store_url, book):
    """Items that the newest call does not have lose their number; new ones are added, moved ones keep their state."""
    book.put(BATCH, [item("a", 1), item("b", 2)])
    book.mark("b1", [ItemStateChange("b1-b", "begun")])
    book.put(BATCH, [item("b", 1), item("c", 2)])
    assert ask(store_url, NUMBERED) == [
        ("b1-a", None, "waiting", 0),
        ("b1-b", 1, "begun", 0),
        ("b1-c", 2, "waiting", 0),
    ]


def test_a_cancelled_batch_can_be_called_again(store_url, book):
    """Cancelling spares the items that have begun; the same call again opens the batch, and its items wait."""
    book.put(BATCH, [item("a", 1), item("b", 2)])
    book.mark("b1", [ItemStateChange("b1-a", "begun")])
    book.set_state("b1", "cancelled", "by hand")
    assert ask(store_url, NUMBERED) == [("b1-a", 1, "begun", 0), ("b1-b", 2, "cancelled", 0)]
    assert unpacked(ask(store_url, "select reason from batches")[0][0]) == "by hand"
    book.put(BATCH, [item("a", 1), item("b", 2)])
    assert ask(store_url, NUMBERED) == [("b1-a", 1, "begun", 0), ("b1-b", 2, "waiting", 0)]
    assert ask(store_url, "select state, reason from batches") == [("open", None)]


def test_an_item_put_back_is_as_new(store_url, book):
    """An item that is put back has no error and no takeovers, and waits."""
    book.put(BATCH, [item("a", 1), item("b", 2)])
    book.mark("b1", [ItemStateChange("b1-a", "dead", "taken over 3 times"), ItemStateChange("b1-b", "dead", "as well")])
    book.put_back("b1", ["b1-a"])
    assert ask(store_url, NUMBERED) == [("b1-a", 1, "waiting", 0), ("b1-b", 2, "dead", 0)]
    assert ask(store_url, "select turns, error from items where run_id = 'b1-a'") == [(0, None)]


def test_many_items_are_written_in_portions(store_url, book, monkeypatch):
    """Items are read while they are written, a portion at a time, so that their number does not fill the memory."""
    monkeypatch.setattr(batches, "PORTION", 50)
    stored = []

    def reading():
        for number in range(1, 2_001):
            if number % 500 == 0:
                stored.append(ask(store_url, "select count(*) from items")[0][0])
            yield StoredItem(f"b1-{number:04}", number, "x" * 1_000, "y" * 1_000)

    tracemalloc.start()
    assert book.put(BATCH, reading()) == 2_000
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert stored == [450, 950, 1_450, 1_950]
    assert ask(store_url, "select min(number), max(number), count(*) from items") == [(1, 2_000, 2_000)]


@pytest.mark.parametrize(("failures", "patience"), [(3, 60.0), (1_000_000, 0.05)])
def test_an_outage_is_waited_for(store_url, monkeypatch, failures, patience):
    """A write is repeated until the store accepts it, and fails with one line if it never does."""
    left = [failures]
    with BatchWriter(store_url, Backoff(first=0.001, patience=patience)) as book:
        whole = type(book._session).write

        def flaky(self, statement, rows):
            if left[0]:
                left[0] -= 1
                raise StoreOutage("locked")
            return whole(self, statement, rows)

        monkeypatch.setattr(type(book._session), "write", flaky)
        if failures == 3:
            assert book.put(BATCH, [item("a", 1)]) == 1
        else:
            with pytest.raises(StoreUnusable, match=r": locked$"):
                book.put(BATCH, [item("a", 1)])
    assert ask(store_url, NUMBERED) == ([("b1-a", 1, "waiting", 0)] if failures == 3 else [])


def test_the_stored_runs_of_the_newest_call_are_known_with_their_costs(store_url, book):
    """Runs of other batches, and of items that the newest call does not have, are left out."""
    stored = ("b1-a", "b1-b", "b1-gone", "b2-a")
    keep(store_url, **{run_id: run_of(run_id) for run_id in stored})
    costs = dict(ask(store_url, "select run_id, cost_usd from runs"))
    assert len(costs) == 4
    assert all(costs.values())
    book.put(BATCH, [item("gone", 1)])
    book.put(BATCH, [item("a", 1), item("b", 2)])
    assert book.add("b1", [item("new", 3)]) == 1
    book.put(StoredBatch("b2", "looker", "?", 6.0), [StoredItem("b2-a", 1, "a", "?")])
    assert book.begun("b1") == {run_id: costs[run_id] for run_id in ("b1-a", "b1-b")}
    assert book.begun("b3") == {}
