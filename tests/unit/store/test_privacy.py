"""Access rights of a store that was created with wider permissions than the program sets."""

import stat

import pytest

from run_specialist.store.location import Location
from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, write

pytestmark = pytest.mark.anyio


def modes(folder):
    """Return the permissions of a folder and of all files in it."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


@pytest.fixture
async def wide(tmp_path):
    """Create a store that everybody can read, and leave its WAL behind as a killed process does."""
    folder = tmp_path / "run-specialist"
    writer = Writer(Location(f"sqlite:///{folder}/runs.db", named=True))
    assert await write(writer.journal("run-0"), *begun("run-0")) is None
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield folder
    writer.close()


@pytest.mark.parametrize("named", [False, True])
async def test_only_the_permissions_of_the_default_store_are_narrowed(wide, named):
    """Permissions of the default store are narrowed; those of an explicitly named one are kept, as it may be shared."""
    assert {"runs.db", "runs.db-wal", "runs.db-shm", "runs.db.owners"} <= set(modes(wide))
    writer = Writer(Location(f"sqlite:///{wide}/runs.db", named=named))
    assert await write(writer.journal("run-1"), *begun("run-1")) is None
    found = modes(wide)
    writer.close()
    folder, file = (0o755, 0o644) if named else (0o700, 0o600)
    assert {found.pop("run-specialist"), found.pop("runs.db.owners")} == {folder}
    assert set(found.values()) == {file}


async def test_narrowing_adds_no_permissions(wide):
    """Narrowing does not add permissions: a file made read-only on purpose does not become writable."""
    extra = wide / "runs.db-journal"
    extra.touch()
    extra.chmod(0o444)
    writer = Writer(Location(f"sqlite:///{wide}/runs.db", named=False))
    writer.journal("run-1")
    writer.close()
    assert stat.S_IMODE(extra.stat().st_mode) == 0o400


async def test_the_target_of_a_symlink_keeps_its_permissions(wide, tmp_path):
    """The permissions of a symlink's target are not changed: the user who made the link decides about them."""
    away = tmp_path / "away"
    away.mkdir()
    (away / "runs.db").symlink_to(wide / "runs.db")
    before = modes(wide)
    writer = Writer(Location(f"sqlite:///{away}/runs.db", named=False))
    assert await write(writer.journal("run-1"), *begun("run-1")) is None
    after = modes(wide)
    writer.close()
    assert {name: after[name] for name in ("run-specialist", "runs.db")} == {
        name: before[name] for name in ("run-specialist", "runs.db")
    }


async def test_a_shared_folder_keeps_its_permissions(wide, tmp_path):
    """A folder that holds more than the store, such as the home directory or `/dev`, keeps its permissions."""
    shared = wide.rename(tmp_path / "shared")
    writer = Writer(Location(f"sqlite:///{shared}/runs.db", named=False))
    assert await write(writer.journal("run-1"), *begun("run-1")) is None
    found = modes(shared)
    writer.close()
    assert (found["shared"], found["runs.db"]) == (0o755, 0o600)
