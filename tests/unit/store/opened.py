"""Helpers shared by the tests of opening a store."""

import subprocess
import sys

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

AT_ONCE = """
import os, sys
from run_specialist.store.sqlite import open_engine
from sqlalchemy import text
url, processes, saying, *first = sys.argv[1:]
for library in first:
    __import__(library)
reading, writing = os.pipe()
for _ in range(int(processes)):
    if not os.fork():
        try:
            engine = open_engine(url)
            with engine.begin() as connection:
                connection.execute(text("select 1"))
            said = str(eval(saying))
        except BaseException as error:
            said = repr(error)
        os.write(writing, (said + "\\n").encode())
        os._exit(0)
os.close(writing)
print(open(reading).read(), end="")
"""


def open_at_once(url, processes, saying="'ok'", first=()):
    """Open a store in several concurrent processes; return the output or the error of each.

    saying: Expression whose value each process prints.
    first: Libraries to import before the processes are forked.
    """
    command = [sys.executable, "-c", AT_ONCE, url, str(processes), saying, *first]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


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
