"""Trees of runs, projects and searches, as queries on both databases."""

from contextlib import closing

import pytest

from run_specialist.errors import RunNotFound
from run_specialist.store.reader import Store
from run_specialist.store.selection import Selection
from run_specialist.store.writer import Writer
from tests.unit.store.finished_runs import keep, run_of, write
from tests.unit.store.records import begun, nowhere, opened


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


def ids(found):
    """Return the ids of runs."""
    return [one.run_id for one in found]


def test_a_limit_counts_trees(forest):
    """The limit counts runs without a selected parent; their selected descendants are returned with them."""
    project = Selection(project="/a")
    assert ids(forest.trees(project, 1)) == ["orphan"]
    assert ids(forest.trees(project, 2)) == ["orphan", "c"]
    assert ids(forest.trees(project, 3)) == ids(forest.trees(project)) == ["orphan", "a2", "c", "a11", "a1", "a"]
    assert ids(forest.trees(Selection(), 3)) == ["orphan", "c", "b"]
    assert ids(forest.trees(Selection(specialist="reader"), 5)) == ["a1"]
    assert ids(forest.trees(Selection(project="/a", status="failed"), 5)) == ["c"]
    assert ids(forest.trees(project, 0)) == []


def test_descendants_are_found_whatever_is_selected(forest):
    """All descendants of some runs are found, each once."""
    assert ids(forest.with_descendants(forest.runs(ids=["a1", "b"]))) == ["b", "a11", "a1"]
    assert ids(forest.with_descendants(forest.runs(ids=["a"]))) == ["a2", "a11", "a1", "a"]


def test_last_and_the_count_of_others_depend_on_the_project(forest):
    """`last` is the newest run of the project without a parent; runs of other projects are counted."""
    assert (forest.find("last", "/a").run_id, forest.find("last", "/b").run_id) == ("c", "b")
    assert (forest.find("last").run_id, forest.find("b", "/a").run_id) == ("c", "b")
    assert [forest.count_elsewhere(project) for project in ("/a", "/b", "/c")] == [1, 6, 7]
    with pytest.raises(RunNotFound, match=r"contains no runs of /c yet; other projects have 7 runs$"):
        forest.find("last", "/c")
    assert (ids(forest.runs()), len(forest.past("looker", "/a")), len(forest.past("looker"))) == (
        ["orphan", "a2", "c", "b", "a11", "a1", "a"], 5, 6,
    )  # fmt: skip


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
