"""Listing, finding, loading and deleting the runs and batches of a store, on both databases."""

import gc
import tracemalloc
from contextlib import closing
from dataclasses import replace

import pytest

from run_specialist.errors import UsageError
from run_specialist.record.journal import Opened
from run_specialist.record.messages import Message, ToolCall
from run_specialist.store import batch_reader
from run_specialist.store.batch_reader import ENDPOINT_KINDS, ITEM_STATUSES, StoredBatches
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem
from run_specialist.store.reader import Store, delete_runs
from run_specialist.store.selection import Selection
from run_specialist.store.writer import Writer
from tests.unit.store.finished_batches import EVERY_STATE, STARTED, TEMPLATE, item_of, keep_batch
from tests.unit.store.finished_runs import keep, run_of, write
from tests.unit.store.records import (
    ask,
    begun,
    checkpointed,
    counts,
    ended,
    nowhere,
    opened,
    outcome,
    received,
    returned,
)


def ids(found):
    """Return the ids of runs."""
    return [one.run_id for one in found]


def test_a_run_without_an_outcome_is_running_or_interrupted(store_url):
    """A run stored as running is shown as running while its process holds the lock, then as interrupted."""
    keep(store_url, dead=begun("dead"), dead_too=[replace(opened("dead_too"), at=2.0)], over=run_of("over"))
    with closing(Writer(nowhere(store_url))) as writer, Store(store_url) as store:
        write(writer, alive=begun("alive"))
        told = {one.run_id: (one.status, one.ended_at) for one in store.runs()}
        dead = ("interrupted", None)
        assert told == {"dead": dead, "dead_too": dead, "alive": ("running", None), "over": ("answered", 1_060.0)}
        assert ids(store.runs(status="running", limit=1)) == ["alive"]
        assert ids(store.runs(status="interrupted", limit=1)) == ["dead"]
        assert (store.load("alive").status, store.load("dead").status) == ("running", "interrupted")
        write(writer, alive=[replace(ended("alive")[0], at=5.0)])
    with Store(store_url) as store:
        assert store.find("alive").status == "answered"


def test_deleting_a_run_removes_only_its_rows(store_url):
    """Deleting a run removes all its rows and no other run's; it needs full ids and ignores unknown ones."""
    keep(store_url, r1=run_of("r1"), r12=run_of("r12"), r2=begun("r2"))
    before = counts(store_url, "r12")
    with Store(store_url) as store:
        store.delete(["r1", "r2", "other"])
        assert ids(store.runs()) == ["r12"]
    assert counts(store_url) == counts(store_url, "r12") == before
    assert min(before.values()) > 0


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


def test_a_batch_is_deleted_with_the_last_of_its_runs(store_url):
    """With a run its item is deleted, whose texts are data of the run; an ended batch with its last run."""
    batch_of(store_url, "b1", "abc")
    batch_of(store_url, "b2", "a")
    keep(store_url, **{run_id: run_of(run_id) for run_id in ("b1-a", "b1-b", "other")})
    assert delete(store_url, "b1-a") == ["b1", "b2", "b1-b", "b1-c", "b2-a"]
    assert delete(store_url, "b1-b") == ["b2", "b2-a"]
    assert counts(store_url)["runs"] == 1


@pytest.mark.exhaustive
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


def test_every_field_of_every_record_is_read_back(store_url):
    """Every field of every record is read back, whatever characters it contains."""
    odd = "\udcff \0 é 🦉 " + "long " * 500
    call = ToolCall(odd, odd, None)
    first = Opened(at=1.0, run_id="r1", specialist="looker", model="m", question=odd, frozen={"system": odd, "n": [1]})
    reply = received(1, {"type": "thinking", "thinking": odd, "signature": "s"}, {"type": "text", "text": odd})
    reply = replace(reply, choice="none", landing=True, reply=replace(reply.reply, more_room_helps=False))
    result = replace(returned(1, odd), call=call, characters=7, is_error=True, note=odd, repeated=True)
    said = [Message.user(odd), Message("assistant", reply.reply.content), Message.user("On.").with_instruction(odd)]
    snapshot = checkpointed(1, 0, said)
    keep(store_url, r1=[first, reply, result, snapshot, *ended("r1")])
    with Store(store_url) as store:
        kept = store.load("r1")
    assert (kept.question, kept.frozen, kept.started_at) == (odd, first.frozen, 1.0)
    assert kept.snapshot == snapshot.snapshot
    lists = ("evidence", "gaps", "warnings", "children", "models", "changes", "support")
    empty: dict[str, list[object]] = {key: [] for key in lists}
    assert kept.outcome == outcome("r1").as_json() | empty
    (turn,), (returned_,), (event,) = kept.turns, kept.calls, kept.events
    assert (turn.reply, turn.cost_usd, turn.choice, turn.landing) == (reply.reply, 0.25, "none", True)
    assert (turn.number, turn.at, turn.seconds) == (1, reply.at, 1.5)
    assert (returned_.call, returned_.whole, returned_.text, returned_.note) == (call, odd, odd[:7], odd)
    assert (returned_.number, returned_.turn, returned_.at, returned_.seconds) == (1, 1, result.at, 0.5)
    assert (returned_.is_error, returned_.repeated, returned_.truncated) == (True, True, True)
    assert [one.message.encoded for one in kept.messages] == [one.encoded for one in said]
    assert [(one.part, one.place, one.copied) for one in kept.messages] == [(0, 0, False), (0, 1, False), (0, 2, False)]
    assert kept.transcript == tuple(said)
    assert (event.number, event.body["event"], event.body["outcome"]["answer"]) == (1, "finished", "It is known.")


def test_the_history_of_a_specialist_lists_its_finished_runs(store_url):
    """The history of a specialist lists its finished runs with their number of calls and of repeated calls."""
    again = [returned(2, repeated=True), returned(3, repeated=True)]
    keep(
        store_url,
        r1=[*run_of("r1", 1.0), *again],
        r2=run_of("r2", 2.0, turns=0),
        r3=begun("r3"),
        r4=run_of("r4", 4.0, specialist="reader"),
    )
    with Store(store_url) as store:
        found = store.past("looker")
        assert [(one.run_id, one.started_at, one.calls, one.repeated) for one in found] == [
            ("r2", 2.0, 0, 0), ("r1", 1.0, 3, 2),
        ]  # fmt: skip
        assert found[0].outcome["answer"] == "It is known."
        assert store.past("nobody") == []


def test_outcomes_are_those_of_the_newest_runs_that_began_from_a_file(store_url, tmp_path):
    """Runs of other files and specialists, and those without an outcome, are left out; a link leads to its file."""
    file, link = tmp_path / "looker.md", tmp_path / "link.md"
    link.symlink_to(file)
    here, elsewhere = {"file": str(file)}, {"file": str(tmp_path / "other.md")}
    keep(
        store_url,
        r1=run_of("r1", 1.0, frozen=here),
        r2=run_of("r2", 2.0, frozen={"file": str(link)}, status="landed"),
        r3=run_of("r3", 3.0, frozen=elsewhere),
        r4=run_of("r4", 4.0, frozen=here, specialist="reader"),
        r5=[opened("r5", frozen=here)],
    )
    with Store(store_url) as store:
        found = [store.outcomes_of_file("looker", link, most) for most in (1, 2, 3)]
    assert [[one["status"] for one in outcomes] for outcomes in found] == [[], ["landed"], ["landed", "answered"]]


def of(project):
    """Return what a run stores about its project."""
    return {"system": "Look.", "project": project}


@pytest.fixture
def forest(store_url):
    """Return a store with two trees in one project, a run of another, and a child whose parent is not stored."""
    keep(
        store_url,
        a=run_of("a", 1.0, frozen=of("/a")),
        a1=run_of("a1", 2.0, frozen=of("/a"), parent_id="a", specialist="reader"),
        a11=run_of("a11", 3.0, frozen=of("/a"), parent_id="a1"),
        b=run_of("b", 4.0, frozen=of("/b")),
        c=run_of("c", 5.0, frozen=of("/a"), status="failed"),
        a2=run_of("a2", 6.0, frozen=of("/a"), parent_id="a"),
        orphan=run_of("orphan", 7.0, frozen=of("/a"), parent_id="gone"),
    )
    with Store(store_url) as store:
        yield store


@pytest.mark.exhaustive
def test_descendants_are_found_whatever_is_selected(forest):
    """All descendants of some runs are found, each once."""
    assert ids(forest.with_descendants(forest.runs(ids=["a1", "b"]))) == ["b", "a11", "a1"]
    assert ids(forest.with_descendants(forest.runs(ids=["a"]))) == ["a2", "a11", "a1", "a"]


def test_the_status_of_a_parent_does_not_hide_its_children(store_url):
    """A running parent is not among the interrupted runs, so its interrupted child is listed by itself."""
    _, *rest = begun("child")
    keep(store_url, child=[opened("child", parent_id="alive"), *rest])
    with closing(Writer(nowhere(store_url))) as writer, Store(store_url) as store:
        write(writer, alive=begun("alive"))
        assert ids(store.trees(Selection(status="interrupted"), 1)) == ["child"]
        assert ids(store.trees(Selection(status="running"), 1)) == ["alive"]


def test_active_runs_are_those_without_an_end_or_with_a_new_one(store_url):
    """Runs that have not ended, or began or ended since a time, are returned oldest first."""
    keep(store_url, old=run_of("old", 1.0), dead=begun("dead"), late=run_of("late", 950.0), new=run_of("new", 2_000.0))
    with Store(store_url) as store:
        found = store.active_since(Selection(), 1_000.0)
        assert sorted(ids(found)) == ["dead", "late", "new"]
        assert [run.started_at for run in found] == sorted(run.started_at for run in found)


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


def test_runs_of_batches_and_those_below_are_left_out(store):
    """Left out are the runs of batches and all runs below them, at any depth; those of batches are counted.

    The runs of one batch are those of its items, without runs below them; other filters apply too.
    """
    others, failed = Selection(without_batches=True), Selection(status="failed", without_batches=True)
    for limit in (None, 10, 1):
        assert {*ids(store.trees(others, limit))} == {"alone", "below"}
    assert {*ids(store.active_since(others, 0.0))} == {"alone", "below"}
    assert (len(store.trees(Selection())), store.trees(failed)) == (7, [])
    counted = (others, failed, Selection(specialist="unknown", without_batches=True))
    assert [store.count_left_out(selection) for selection in counted] == [3, 1, 0]
    assert {*ids(store.trees(Selection(batch="b1")))} == {"b1-a", "b1-b"}
    assert {*ids(store.trees(Selection(batch="b1", status="failed"), 5))} == {"b1-b"}
    assert store.trees(Selection(batch="b")) == []


def statuses(url, batch_id="b1", **how):
    """Return the status of each item by its number."""
    with StoredBatches(url) as store:
        return {item.number: item.status for item in store.items(batch_id, **how)}


def tally(url, batch_id="b1"):
    """Return the tally of a batch."""
    with StoredBatches(url) as store:
        return store.tally(batch_id)


def test_each_item_has_a_status_and_is_counted(store_url):
    """The status of an item is that of its run; without a run it is dead, failed with an error, or not run.

    An item has input, question, and the outcome and figures of its run; without a run its own error.
    """
    items = keep_batch(store_url, EVERY_STATE)
    found = tally(store_url)
    assert found.counts == {
        **dict.fromkeys(("answered", "landed", "partial", "aborted", "dead", "interrupted", "not run"), 1),
        "failed": 2,
    }
    assert list(found.counts) == [status for status in ITEM_STATUSES if status in found.counts]
    assert (found.items, found.runs, found.earlier, found.unknown_costs) == (9, 6, 0, 0)
    # An interrupted run has made no turn, the others one that cost a quarter.
    assert (found.cost_usd, found.tool_calls) == (1.25, 5)
    assert (found.started_at, found.ended_at, found.worked_s) == (STARTED, STARTED + 64, 300)
    assert statuses(store_url, failures=True) == {4: "failed", 5: "aborted", 8: "failed", 9: "dead"}
    with StoredBatches(store_url) as store:
        read = {item.run_id: item for item in store.items("b1")}
    answered, failed = read["b1-a"], read["b1-e"]
    assert (answered.input, answered.question) == (items[0].input, "What does a.md say about leaks?")
    assert (answered.outcome["status"], answered.outcome["answer"]) == ("answered", "a.md says that it leaks.")
    assert (answered.tool_calls, answered.cost_usd, answered.seconds, answered.error) == (1, 0.25, 60.0, None)
    assert (failed.outcome, failed.cost_usd, failed.seconds) == (None, None, None)
    assert failed.error == "{path} is not a column"
    assert read["b1-i"].outcome is None


def test_an_item_that_was_taken_back_is_not_run(store_url):
    """A run that failed because of the endpoint counts as not run while its item waits, else as failed."""
    kinds = [*sorted(ENDPOINT_KINDS), "invalid_request", "internal", None]
    pairs = [(state, at) for state in ("waits", "ended", "begun") for at in range(len(kinds))]
    keep_batch(store_url, {f"{state}{at}": {"status": "failed", "kind": kinds[at]} for state, at in pairs})
    with BatchWriter(store_url) as book:
        for state, at in [pair for pair in pairs if pair[0] != "waits"]:
            book.mark("b1", f"b1-{state}{at}", state)
    waiting = {at for at, kind in enumerate(kinds, 1) if kind in ENDPOINT_KINDS}
    numbers = range(1, len(pairs) + 1)
    assert statuses(store_url) == {number: "not run" if number in waiting else "failed" for number in numbers}
    assert statuses(store_url, failures=True) == {number: "failed" for number in numbers if number not in waiting}
    assert tally(store_url).counts == {"failed": len(pairs) - len(waiting), "not run": len(waiting)}


def test_a_dead_item_is_dead_until_its_run_ends(store_url):
    """An item given up while its run is unfinished is dead; if the run ended after all, that is what counts."""
    keep_batch(store_url, {"a": {"status": "interrupted"}, "b": {"status": "answered"}})
    with BatchWriter(store_url) as book:
        book.mark("b1", "b1-a", "dead", "taken over 3 times")
        book.mark("b1", "b1-b", "dead")
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


@pytest.mark.exhaustive
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
