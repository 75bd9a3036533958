"""Durations and paths in tables; pure functions."""

import pytest

from run_specialist.cli.tables import duration_words, short_path


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
