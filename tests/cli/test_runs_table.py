"""The values in the table of runs; pure functions."""

import pytest

from run_specialist.cli.tables import duration_words, short_path
from run_specialist.store.stored import ListedRun


def run(**changed):
    """Return a listed run."""
    values = {
        "run_id": "20261122-112233-abcdef0123", "parent_id": None, "specialist": "finder", "model": "m",
        "question": "Why?", "status": "answered", "started_at": 1.0, "ended_at": 2.0, "tool_calls": 1, "cost_usd": 0.5,
    }  # fmt: skip
    return ListedRun(**values | {"project": "/p", "duration_s": 3.0} | changed)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (59.6, "1m 00s"), (200, "3m 20s"), (3_600, "1h 00m")],
)
def test_durations_are_short(seconds, words):
    """A duration has at most two units."""
    assert duration_words(seconds) == words


def test_the_home_folder_is_shortened(monkeypatch):
    """Only a path inside of the home folder begins with a tilde."""
    monkeypatch.setenv("HOME", "/home/me")
    paths = ("/home/me", "/home/me/p", "/home/mel", "/x")
    assert [short_path(path) for path in paths] == ["~", "~/p", "/home/mel", "/x"]
