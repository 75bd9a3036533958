"""Listing, finding and deleting the runs of a store, on both databases."""

from contextlib import closing
from dataclasses import replace

import pytest

from run_specialist.errors import RunNotFound, StoreMissing, UsageError
from run_specialist.store.reader import Store
from run_specialist.store.selection import Selection
from run_specialist.store.writer import Writer
from tests.unit.store.finished_runs import keep, named, run_of, write
from tests.unit.store.records import (
    begun,
    change,
    counts,
    ended,
    nowhere,
    opened,
)


@pytest.fixture
def three(store_url):
    """Return a store with three runs, of which r2 is the newest."""
    keep(
        store_url,
        r1=run_of("r1", 1_000.0),
        r2=run_of("r2", 3_000.0, turns=2, status="partial", specialist="reader", model="m", question="Why?\nHow?"),
        r3=run_of("r3", 2_000.0),
    )
    with Store(store_url) as store:
        yield store


def ids(found):
    """Return the ids of runs."""
    return [one.run_id for one in found]


def test_a_listing_is_filtered(three):
    """A listing is filtered by id prefix, specialist, status, age and number; all filters must match."""
    assert ids(three.runs(ids=["r1", "r2"])) == ["r2", "r1"]
    assert ids(three.runs(ids=["r"], limit=2)) == ["r2", "r3"]
    assert ids(three.runs(ids=["_1", "%"])) == []
    assert ids(three.trees(Selection(specialist="looker"))) == ["r3", "r1"]
    assert ids(three.runs(status="answered", limit=1)) == ["r3"]
    assert ids(three.runs(status="failed")) == []
    assert ids(three.trees(Selection(before=2_060.0))) == ["r1"]
    assert ids(three.trees(Selection(before=2_061.0, specialist="looker"), 5)) == ["r3", "r1"]
    assert ids(three.runs(limit=0)) == []


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


def test_a_run_is_found_by_its_id_by_its_beginning_and_as_the_last(store_url):
    """A run is found by its id, by a prefix or as the last one.

    An exact id wins over a longer one it is a prefix of; the last run is never one that another run started.
    """
    keep(store_url, r1=run_of("r1", 3.0), r12=run_of("r12", 2.0), x1=run_of("x1", 1.0), child=run_of("child", 4.0))
    change(store_url, "update runs set parent_id = 'r1' where run_id = 'child'")
    with Store(store_url) as store:
        assert [store.find(given).run_id for given in ("r1", "r12", "x", "last", "child")] == [
            "r1", "r12", "x1", "r1", "child",
        ]  # fmt: skip
        assert store.find("child").parent_id == "r1"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("2", "7 run ids start with 2: 27, 26, 25, 24, 23 and 2 more; use more of the id"),
        ("nothing like it", "there is no run nothing like it in {}; the newest is 27"),
        ("277", "there is no run 277 in {}; the newest is 27"),
        ("%", "there is no run % in {}; the newest is 27"),
        ("\udcff\0", "there is no run \udcff\0 in {}; the newest is 27"),
    ],
)
def test_an_unknown_or_ambiguous_id_is_reported(store_url, given, told):
    """An id that matches no run or several is reported in one line, with the matching ids or the newest one."""
    keep(store_url, **{f"2{number}": run_of(f"2{number}", float(number)) for number in range(1, 8)})
    with Store(store_url) as store, pytest.raises(RunNotFound) as caught:
        store.load(given)
    assert str(caught.value) == told.format(named(store_url))


def test_a_missing_store_is_reported_and_not_created(store_url):
    """A missing store is reported as missing and is not created by reading."""
    for _ in range(2):
        with pytest.raises(StoreMissing, match=r"^there is no store at .* yet; the first run creates it$"):
            Store(store_url)


def test_deleting_a_run_removes_only_its_rows(store_url):
    """Deleting a run removes all its rows and no other run's; it needs full ids and ignores unknown ones."""
    keep(store_url, r1=run_of("r1"), r12=run_of("r12"), r2=begun("r2"))
    before = counts(store_url, "r12")
    with Store(store_url) as store:
        store.delete(["r1", "r2", "other"])
        assert ids(store.runs()) == ["r12"]
    assert counts(store_url) == counts(store_url, "r12") == before
    assert min(before.values()) > 0


def test_a_selection_with_a_running_run_is_not_deleted(store_url):
    """If a run is still running, none of the selection is deleted and the error names the run and its owner.

    It can be deleted once its process has died.
    """
    keep(store_url, dead=begun("dead"))
    writer = Writer(nowhere(store_url))
    with Store(store_url) as store:
        with closing(writer):
            write(writer, alive=begun("alive"), done=run_of("done"))
            before = counts(store_url)
            with pytest.raises(UsageError, match=r"^alive is still running: .*; stop it first; nothing was deleted$"):
                store.delete(["dead", "alive"])
            assert counts(store_url) == before
            # A run that a living process has finished can be deleted.
            store.delete(["done", "dead"])
        assert ids(store.runs()) == ["alive"]
        store.delete(["alive"])
    assert set(counts(store_url).values()) == {0}
