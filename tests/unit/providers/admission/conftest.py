"""The fixtures for the tests of a gate."""

import pytest

from run_specialist.providers import admission
from tests.unit.providers.admission.gated_requests import ManualTime


@pytest.fixture(autouse=True)
def without_pace(monkeypatch):
    """Let any number of requests start per iteration of the event loop: `test_pace.py` tests that limit."""
    monkeypatch.setattr(admission, "PER_TURN", 10_000)


@pytest.fixture
def time(monkeypatch):
    """A clock that the test sets."""
    return ManualTime(monkeypatch)
