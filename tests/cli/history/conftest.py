"""Stores with runs, for the commands that show them."""

import time
from dataclasses import replace

import pytest

from tests.cli.history.commands import DAY, NOON, here, keep, run_of
from tests.unit.store.records import begun, opened


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
