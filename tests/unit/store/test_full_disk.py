"""Runs can be read and deleted when the disk is full."""

import json
import shutil
import subprocess
import sys
from contextlib import closing

import pytest

from run_specialist.errors import StoreMissing, StoreUnusable
from run_specialist.store import reader
from run_specialist.store.reader import Store
from tests.unit.store.records import begun, change, counts, ended, turn_of, write

pytestmark = pytest.mark.anyio

FULL = """
import asyncio, json, os, subprocess, sys
folder, kept = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
from run_specialist.errors import StoreMissing, StoreUnusable
from run_specialist.store.location import Location
from run_specialist.store.reader import Store
from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, ended, turn_of, write

url = f"sqlite:///{folder}/runs.db"
writer = Writer(Location(url, named=True))
for run_id in ("run-1", "run-2"):
    assert asyncio.run(write(writer.journal(run_id), *begun(run_id), *turn_of(1), *ended(run_id))) is None
writer.close()
with open(f"{folder}/filler", "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
told = {}
with Store(url) as store:
    told["listed"] = [run.run_id for run in store.runs()]
    told["turns"] = len(store.load("run-1").turns)
    try:
        store.delete(["run-1"])
    except StoreUnusable as error:
        told["some"] = str(error)
    told["left"] = len(store.runs())
    told["freed"] = store.delete(["run-1", "run-2"]) > 0
try:
    Store(url)
except StoreMissing:
    told["after"] = "none"
os.unlink(f"{folder}/filler")
writer = Writer(Location(url, named=True))
told["again"] = asyncio.run(write(writer.journal("run-3"), *begun("run-3")))
writer.close()
print(json.dumps(told))
"""


def test_a_store_on_a_full_disk_can_be_read_and_emptied(tmp_path):
    """With no byte free, runs can be read and deleted, and then stored again.

    SQLite can then create neither a WAL nor its index.
    """
    alone = [shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--mount"]
    try:
        subprocess.run([*alone, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    command = [*alone, sys.executable, "-c", FULL, str(tmp_path), "runs.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert "the disk is full" in told["some"]
    assert told["some"].endswith(reader.NEEDS_SPACE)
    del told["some"]
    expected = {"listed": ["run-2", "run-1"], "turns": 1, "left": 2, "freed": True, "after": "none", "again": None}
    assert told == expected


@pytest.fixture
async def url(make_writer, tmp_path):
    """Store two finished runs and return the URL."""
    url = f"sqlite:///{tmp_path}/runs.db"
    with closing(make_writer(url)) as writer:
        for run_id in ("run-1", "run-2"):
            assert await write(writer.journal(run_id), *begun(run_id), *turn_of(1), *ended(run_id)) is None
    return url


@pytest.fixture
def full(monkeypatch):
    """Make every regular deletion fail as on a full disk."""

    def fail(url, _ids, _batch_ids=()):
        raise StoreUnusable(f"{url}: database or disk is full")

    monkeypatch.setattr(reader, "delete_runs", fail)


async def test_deleting_on_a_full_disk_keeps_the_other_runs(url, full, make_writer):
    """Deleting some runs on a full disk keeps the others: the file is removed only if no run is to be kept."""
    with Store(url) as store:
        with pytest.raises(StoreUnusable, match="free disk space"):
            store.delete(["run-1"])
        assert len(store.runs()) == 2
        assert store.delete(["run-1", "run-2"]) > 0
    with pytest.raises(StoreMissing):
        Store(url)
    with closing(make_writer(url)) as writer:
        assert await write(writer.journal("run-3"), *begun("run-3")) is None
    assert counts(url)["runs"] == 1


async def test_a_store_that_another_process_uses_is_not_removed(url, full, make_writer, monkeypatch):
    """A store that another process uses is not removed, as that process would write on to an unlinked file."""
    monkeypatch.setattr("run_specialist.store.sqlite.WAIT", 0.01)
    make_writer(url).check()
    with Store(url) as store, pytest.raises(StoreUnusable, match="free disk space"):
        store.delete(["run-1", "run-2"])
    assert counts(url)["runs"] == 2


async def test_a_store_with_a_running_run_is_not_removed(url, full, monkeypatch):
    """A store with a running run is not removed, even if no process has the file open."""
    change(url, "update runs set status = 'running' where run_id = 'run-2'")
    monkeypatch.setattr(reader, "is_alive", lambda _url, _token: True)
    with Store(url) as store, pytest.raises(StoreUnusable, match="free disk space"):
        store.delete(["run-1", "run-2"])
    assert counts(url)["runs"] == 2


async def test_an_unwritable_store_is_left_unchanged(url, monkeypatch):
    """If a store cannot be written for another reason than a full disk, it is left unchanged."""

    def fail(url, _ids, _batch_ids=()):
        raise StoreUnusable(f"{url} is damaged")

    monkeypatch.setattr(reader, "delete_runs", fail)
    with Store(url) as store, pytest.raises(StoreUnusable, match="is damaged"):
        store.delete(["run-1", "run-2"])
    assert counts(url)["runs"] == 2
