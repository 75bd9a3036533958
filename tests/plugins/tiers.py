"""Two sets of tests: those of every run, and with `--exhaustive` also the large ones.

A test marked `exhaustive` repeats a smaller test at full size, or needs a browser or a database server. With the
marker's `one_in=5`, the first, sixth, ... of the test's parameters are part of the ordinary run. In the ordinary run
a test has at most two of its cases, and properties use a tenth of their examples, the same in each run.
"""

import math
import os
import random

import pytest

from tests.plugins.environment import runs_tests

FLAG = "--exhaustive"
WORKERS_PER_CORE, MANY_WORKERS_PER_CORE = 2.0, 2.5
"""Workers per core, and with `--exhaustive`; tests wait for a third of their time for servers, child processes and
disks, the large ones for more."""
SHARE = 10
"""Divisor of the number of examples in the ordinary run."""
CASES = 2
"""Cases of a parametrized test in the ordinary run."""
USUAL = 30
"""Examples of a property that names no number; they are others in each exhaustive run."""
_full = False
_all = False
"""Whether all tests are selected: by the flag, by the marker, or by their names."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the `--exhaustive` flag."""
    parser.addoption(FLAG, action="store_true", help="run the tests that are marked as exhaustive too")


def pytest_configure(config: pytest.Config) -> None:
    """Load the Hypothesis profile, which sets the number of examples."""
    global _full, _all  # noqa: PLW0603 - decorators of test functions have no other way to know it
    _full = config.getoption(FLAG)
    _all = _full or "exhaustive" in config.getoption("markexpr") or any("::" in word for word in config.args)
    if not runs_tests(config):
        return
    from hypothesis import HealthCheck, settings  # takes a second, which the process without tests saves

    # A slow machine or many discarded random examples do not count as failures.
    ignored = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    luck = {"deadline": None, "suppress_health_check": ignored}
    settings.register_profile("exhaustive", **luck, derandomize=False, print_blob=True, max_examples=examples(USUAL))
    settings.register_profile("ordinary", **luck, derandomize=True, database=None, max_examples=examples(USUAL))
    settings.load_profile("exhaustive" if _full else "ordinary")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many workers `-n auto` starts; called before `pytest_configure`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return math.ceil(cores * (MANY_WORKERS_PER_CORE if config.getoption(FLAG) else WORKERS_PER_CORE))


def examples(full: int) -> int:
    """Return the number of examples of a property; EXAMPLES in the environment overrides it for all properties."""
    return int(os.environ.get("EXAMPLES", full if _full else max(full // SHARE, 5)))


def seed() -> int:
    """Return the random seed: 1 in the ordinary run, random in the exhaustive one, or SEED from the environment."""
    return int(os.environ.get("SEED", random.SystemRandom().randrange(10**6) if _full else 1))


def pytest_report_header(config: pytest.Config) -> str:
    """Return the header line that states which tests run."""
    return "tests: all" if config.getoption(FLAG) else f"tests: all but the exhaustive ones, which {FLAG} adds"


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    """Leave out exhaustive tests. All items of them would take as long as many of the others."""
    if _all or not name.startswith("test") or not callable(obj):
        return None
    marks = [*getattr(obj, "pytestmark", []), *collector.iter_markers("exhaustive")]
    found = next((mark for mark in marks if mark.name == "exhaustive"), None)
    return [] if found and not found.kwargs else None


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc):
    """Leave out most cases of a parametrized test."""
    done = yield
    cases = [case for case in metafunc._calls if "exhaustive" not in [mark.name for mark in case.marks]]
    if not _all and cases:
        marker = metafunc.definition.get_closest_marker("exhaustive")
        some = cases[:: marker.kwargs["one_in"]] if marker else cases
        # Spread over all, because neighbors are similar.
        count = min(len(some), CASES)
        metafunc._calls[:] = [some[len(some) * number // count] for number in range(count)]
    return done


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker begin with the large tests, one of which at the end of the run would leave the others idle."""
    if config.getoption(FLAG):
        # Each worker gets a share of the items in a row.
        workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
        kinds = [
            [item for item in items if (item.get_closest_marker("exhaustive") is None) is small]
            for small in (False, True)
        ]
        items[:] = [
            item
            for worker in range(workers)
            for of_kind in kinds
            for item in of_kind[len(of_kind) * worker // workers : len(of_kind) * (worker + 1) // workers]
        ]
