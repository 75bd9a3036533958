"""The stored state of a run while no process works on it."""

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from run_specialist.store.location import file_of
from run_specialist.store.reader import Store
from run_specialist.store.rows import RUNNING
from run_specialist.store.stored import StoredRun

PATIENCE = 60.0
"""Maximum time for which a store may take a dead process for alive [s]."""


def look(store: str, question: str, folder: Path) -> StoredRun | None:
    """Return the run with this question, or None if it is not stored.

    A store in a file is copied first, so that the next process finds it as the previous one left it.
    """
    if (file := file_of(store)) is not None:
        copy = folder / "copy.db"
        for end in ("", "-wal", "-journal"):
            copy.with_name(f"copy.db{end}").unlink(missing_ok=True)
            if (part := file.with_name(f"{file.name}{end}")).exists():
                shutil.copyfile(part, copy.with_name(f"copy.db{end}"))
        if not (copy.exists() and _holds_runs(copy)):
            return None
        store = f"sqlite:///{copy}"
    return stored(store, question)


def stored(store: str, question: str) -> StoredRun | None:
    """Return the run with this question once its process is known to be dead, or None if it is not stored."""
    last = time.monotonic() + PATIENCE
    with Store(store) as opened:
        while True:
            found = [one for one in opened.runs() if one.question == question]
            # A server takes some milliseconds to detect a closed connection.
            if not found or found[0].status != RUNNING:
                return opened.load(found[0].run_id) if found else None
            assert time.monotonic() < last, f"{found[0].run_id} is taken for alive"
            time.sleep(0.005)


def _holds_runs(file: Path) -> bool:
    """Return whether the file holds a run, even if the store is incomplete; check its integrity."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        if not connection.execute("select 1 from sqlite_schema where name = 'runs'").fetchall():
            return False
        return bool(connection.execute("select 1 from runs").fetchall())
