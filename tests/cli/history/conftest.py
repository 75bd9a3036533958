"""The commands for stored runs, called in this process and on a terminal, and stores with the runs that they show."""

import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist.store.location import place
from run_specialist.store.writer import Writer
from tests.cli.specialists_command import call
from tests.screen import run_on_terminal
from tests.unit.store import finished_runs
from tests.unit.store.records import begun, opened

NOON = 1_795_348_800.0
"""2026-11-22, 12:00 UTC."""
DAY = 86_400.0


def keep(**runs):
    """Store runs, and end the process that wrote them."""
    with closing(Writer(place(None))) as writer:
        finished_runs.write(writer, **runs)


def here():
    """Return what a run in the current folder stores about its project."""
    return {"system": "Look.", "project": str(Path.cwd().resolve()), "root": "/gone"}


def run_of(run_id, at=NOON, project=None, **changed):
    """Return the records of a finished run, which began at noon by default, in the project of the current folder."""
    frozen = here() | ({} if project is None else {"project": project})
    return finished_runs.run_of(run_id, at, **{"frozen": frozen} | changed)


def listed(*arguments):
    """Return the ids that `runs --json` lists."""
    return [run["run_id"] for run in json.loads(call("runs", *arguments, "--json").stdout)["runs"]]


def on_terminal(*arguments, **options):
    """Run the command as a program on a terminal of 120 columns; return its output and its exit code."""
    written, _, code = run_on_terminal(["specialists", *arguments], **{"columns": 120} | options)
    return written.replace("\r\n", "\n"), code


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Set the store for all commands, a time zone, and an empty working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield str(tmp_path / "runs.db")
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def three(store):
    """Store three runs: an old one, a newer one of another specialist, and the newest, which was interrupted."""
    keep(
        run_a=run_of("run_a", NOON - 40 * DAY, turns=2),
        run_b=run_of("run_b", NOON - DAY, status="partial", specialist="reader", question="Why\n is it?"),
        run_c=[replace(opened("run_c", frozen=here()), at=NOON), *begun("run_c")[1:]],
    )
    return store
