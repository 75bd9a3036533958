"""Stores with runs, for the commands that show them."""

import time
from dataclasses import replace

import pytest

from tests.cli.history.commands import DAY, NOON, keep, run_of
from tests.unit.store.records import begun, opened


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Name a store for all commands, and enter an empty folder."""
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
    """Keep three runs: one that is over, a younger one of another specialist, and the youngest, which was cut off."""
    keep(
        run_a=run_of("run_a", NOON - 40 * DAY, turns=2),
        run_b=run_of("run_b", NOON - DAY, status="partial", specialist="reader", question="Why\n is it?"),
        run_c=[replace(opened("run_c"), at=NOON), *begun("run_c")[1:]],
    )
    return store
