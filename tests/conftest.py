"""Settings that every test shares: one event loop library, and an environment that is nobody's own."""

import os

import pytest
from hypothesis import settings

pytest_plugins = ["tests.stores"]

# Two cores with much else to do are slow at times, and that is no finding.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

FOREIGN = ("ANTHROPIC_", "OPENAI_", "SPECIALIST_")


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide keys, endpoints, settings and the store of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SPECIALIST_STORE", "none")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail a test that is skipped for want of a part that is said to be installed (REQUIRED_PARTS, by commas)."""
    report = yield
    required = [part for part in os.environ.get("REQUIRED_PARTS", "").split(",") if part]
    if report.skipped and any(part in str(report.longrepr) for part in required):
        report.outcome = "failed"
    return report
