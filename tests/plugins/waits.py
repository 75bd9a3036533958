"""No test waits between two attempts of a request, or at a gate that an earlier test has closed.

A test that needs the real waits replaces `Retries.sleep` and `Gate.sleep` itself.
"""

import pytest

from run_specialist.providers.admission import GATES
from tests.skipped_waits import skip_waits


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    GATES.clear()
    skip_waits(monkeypatch.setattr)
