"""What most tests need done once: a collection without the garbage collector, cached commands, no waits."""

import functools
import gc

import pytest

from tests.plugins.environment import runs_tests


def pytest_configure(config: pytest.Config) -> None:
    """Cache the commands that `CliRunner` calls: building them from their functions takes longer than most of them."""
    if runs_tests(config):
        from typer import testing

        testing._get_command = functools.cache(testing._get_command)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session):
    """Pause the collector, which would look at a million living objects again and again, and exclude them after that.

    Tests that collect garbage themselves take a tenth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the waits between attempts and at gates; a test of the real ones replaces `Retries.sleep` itself."""
    # Imported late, because the process without tests loads this module too.
    from run_specialist.providers.admission import GATES
    from tests.skipped_waits import skip_waits

    GATES.clear()
    skip_waits(monkeypatch.setattr)
