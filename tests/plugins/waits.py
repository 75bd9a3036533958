"""No test waits between two attempts of a request, unless it replaces `Retries.sleep` itself."""

import pytest

from tests.skipped_waits import skip_waits


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_waits(monkeypatch.setattr)
