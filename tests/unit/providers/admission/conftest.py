"""The fixture for the tests of a gate."""

import pytest

from tests.unit.providers.admission.gated_requests import ManualTime


@pytest.fixture
def time(monkeypatch):
    """A clock that the test sets."""
    return ManualTime(monkeypatch)
