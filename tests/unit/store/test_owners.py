import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from run_specialist.errors import StoreUnusable
from run_specialist.store.location import file_of
from run_specialist.store.owners import acquire, is_alive
from run_specialist.store.postgresql import parsed
from run_specialist.store.sqlite import open_engine
from tests.stores import without_privileges

HOLD = """
import sys
from run_specialist.store.owners import acquire
owner = acquire(sys.argv[1])
print(owner.token, flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(url):
    """Run a process that holds a lock; yield the process and its token."""
    command = [sys.executable, "-c", HOLD, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def url(store_url):
    """Return the URL of an existing store."""
    open_engine(store_url).dispose()
    return store_url


def locks(url):
    """Return the names of the lock files of all owners so far."""
    path = file_of(url)
    return {file.name for file in path.with_name(f"{path.name}.owners").iterdir()}


def died(url, token):
    """Wait until a server has noticed the end of a process; return whether the owner counts as dead."""
    if file_of(url) is None:
        engine = create_engine(parsed(url), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            # Granted as soon as the session that holds it ends.
            asked = "select pg_advisory_lock((classid::bigint << 32) | objid::bigint) from pg_locks "
            connection.execute(text(asked + "where locktype = 'advisory' and granted")).all()
        engine.dispose()
    return not is_alive(url, token)


def test_an_owner_is_alive_until_it_releases_its_lock(url):
    """An owner is alive until it releases its lock; a check does not take the lock; a second release is harmless."""
    owner = acquire(url)
    assert is_alive(url, owner.token)
    assert is_alive(url, owner.token)
    owner.close()
    owner.close()
    assert not is_alive(url, owner.token)


def test_a_killed_process_counts_as_dead(url):
    """A killed process counts as dead, since the system releases its lock."""
    with another_process(url) as (process, token):
        assert is_alive(url, token)
        process.kill()
        process.wait()
        assert died(url, token)


def test_a_forked_child_does_not_release_the_lock_of_its_parent(url):
    """A forked child, which inherits and closes copies of everything, does not release its parent's lock."""
    owner = acquire(url)
    child = os.fork()
    if not child:
        owner.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert is_alive(url, owner.token)
    owner.close()


# --- files


@pytest.fixture
def store(tmp_path):
    """Return the URL of a store in a file that does not exist yet."""
    return f"sqlite:///{tmp_path}/runs.db"


def test_lock_files_of_dead_owners_are_removed(store):
    """Lock files of dead owners are removed by a check, by the next owner, and by an owner that ends normally."""
    for _ in range(2):
        with another_process(store) as (process, token):
            process.kill()
            process.wait()
    assert len(locks(store)) == 1
    assert not is_alive(store, token)
    assert not locks(store)
    with another_process(store):
        pass
    owner = acquire(store)
    assert len(locks(store)) == 1
    owner.close()
    assert not locks(store)


def test_two_simultaneous_checks_share_the_lock(store, tmp_path):
    """Two simultaneous checks do not take each other for the owner, since they share the lock."""
    with another_process(store) as (process, token):
        process.kill()
        process.wait()
    (file,) = (tmp_path / "runs.db.owners").iterdir()
    with file.open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not is_alive(store, token)


def test_a_lock_file_being_created_is_not_removed(store, tmp_path):
    """A lock file that is being created, and is still unlocked and empty, is not removed."""
    folder = tmp_path / "runs.db.owners"
    folder.mkdir()
    (folder / "abc.lock").touch()
    acquire(store).close()
    assert locks(store) == {"abc.lock"}


def test_lock_files_are_accessible_only_to_their_owner(store, tmp_path):
    """Only the owner can access the lock files, since they name a host and a process."""
    owner = acquire(store)
    folder = tmp_path / "runs.db.owners"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    owner.close()


def test_a_store_has_one_lock_folder_under_all_its_names(store, tmp_path):
    """A store has one lock folder under all its path names; otherwise a running run could be resumed."""
    (tmp_path / "link.db").symlink_to(tmp_path / "runs.db")
    owner = acquire(store)
    assert is_alive(f"sqlite:///{tmp_path}/link.db", owner.token)
    owner.close()


def test_a_process_that_may_not_check_a_lock_takes_its_owner_for_alive():
    """If a process may not check the lock, it does not consider the owner dead."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        owner = acquire(f"sqlite:///{name}/runs.db")
        owners = Path(name) / "runs.db.owners"
        for path in owners.iterdir():
            path.chmod(0)
        owners.chmod(0o555)
        with without_privileges():
            assert is_alive(f"sqlite:///{name}/runs.db", owner.token)
            with pytest.raises(StoreUnusable, match=r"cannot create a lock file in .*: Permission denied"):
                acquire(f"sqlite:///{name}/runs.db")
        owners.chmod(0o755)
        owner.close()
