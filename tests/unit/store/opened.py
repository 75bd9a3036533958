"""Helpers shared by the tests of opening a store."""

import pytest
from sqlalchemy import func, insert, select

from run_specialist.errors import StoreUnusable
from run_specialist.store import tables
from run_specialist.store.sqlite import open_engine

RUN = {
    "specialist": "looker",
    "model": "offline",
    "question": "Why?",
    "status": "running",
    "started_at": 1.5,
    "owner": "abc",
    "tool_calls": 0,
    "frozen": "{}",
}


def refusal(url, **how):
    """Return the one-line error with which a store is refused."""
    with pytest.raises(StoreUnusable) as refused:
        open_engine(str(url), **how)
    said = str(refused.value)
    assert said
    assert "\n" not in said
    return said


def snapshot(folder):
    """Return all files of a folder with their bytes."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def add_run(engine, run_id):
    """Add a run."""
    with engine.begin() as connection:
        connection.execute(insert(tables.runs).values(run_id=run_id, **RUN))


def count(connection):
    """Return the number of runs that a connection sees."""
    return connection.execute(select(func.count()).select_from(tables.runs)).scalar()
