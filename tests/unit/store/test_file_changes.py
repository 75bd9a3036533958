"""What runs have changed in files: stored before it happens, read with the children's, deleted with the run."""

from contextlib import closing

import pytest

from run_specialist.record.journal import FileChanging
from run_specialist.store.reader import Store
from run_specialist.store.sqlite import FileSession
from tests.unit.store.records import opened

pytestmark = pytest.mark.anyio


def changing(name, at, *, before="ä\r\n\0"):
    """Return the record of a change."""
    old = None if before is None else "old"
    return FileChanging(f"id-{name}", f"{name}.md", old, "new", before, f".{name}.tmp", 2, at=at)


async def test_changes_are_read_with_those_of_children_oldest_first(store_url, make_writer):
    """Each with its root and its content; sent again, it is stored once; it is deleted with its run."""
    last, first, between = changing("c", 3.0), changing("a", 1.0, before=None), changing("b", 2.0)
    with closing(make_writer(store_url)) as writer:
        parent, child = writer.journal("parent"), writer.journal("child")
        for record in (opened("parent", frozen={"root": "/p"}), first, first, last):
            parent.write(record)
        for record in (opened("child", frozen={"root": "/p"}, parent_id="parent"), between):
            child.write(record)
        assert await parent.has_stored()
        assert await child.has_stored()
    with Store(store_url) as store:
        found = store.changes("parent")
        assert [(one.run_id, one.root) for one in found] == [("parent", "/p"), ("child", "/p"), ("parent", "/p")]
        assert [one.change for one in found] == [first, between, last]
        assert [one.change for one in store.changes("child")] == [between]


async def test_a_journal_says_whether_it_has_stored_a_record(make_writer, tmp_path):
    """Not in a store that cannot be written; the reason stays for the run, which warns once."""
    (tmp_path / "folder").mkdir()
    with closing(make_writer(f"sqlite:///{tmp_path}/folder")) as writer:
        journal = writer.journal("run")
        for record in (opened("run"), changing("a", 1.0)):
            journal.write(record)
        assert not await journal.has_stored()
        assert not await journal.has_stored()
        assert "this run is not stored" in await journal.committed()
        assert await journal.committed() is None


async def test_a_change_survives_a_power_failure(make_writer, tmp_path, monkeypatch):
    """Its commit is synced to the disk before the file is replaced; those of other records are synced later."""
    synced, original = [], FileSession.transaction

    def transaction(session, *, lasting=False):
        synced.append(lasting)
        return original(session, lasting=lasting)

    with closing(make_writer(f"sqlite:///{tmp_path}/runs.db")) as writer:
        writer.check()
        monkeypatch.setattr(FileSession, "transaction", transaction)
        journal = writer.journal("run")
        for record in (opened("run"), changing("a", 1.0)):
            journal.write(record)
            assert await journal.has_stored()
    assert synced == [False, True]
