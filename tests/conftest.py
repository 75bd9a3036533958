"""Settings shared by all tests; the larger ones are in the folder `plugins`."""

import os

import pytest

pytest_plugins = [
    "tests.plugins.environment",
    "tests.plugins.leftovers",
    "tests.plugins.shared_imports",
    "tests.plugins.speed",
    "tests.plugins.tiers",
    "tests.stores",
]


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio."""
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail a test that was skipped because a required part is missing (REQUIRED_PARTS, separated by commas)."""
    report = yield
    required = [part for part in os.environ.get("REQUIRED_PARTS", "").split(",") if part]
    if report.skipped and any(part in str(report.longrepr) for part in required):
        report.outcome = "failed"
    return report
