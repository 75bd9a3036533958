"""Two sets of tests: those of every run, and with `--exhaustive` also the large ones.

A test marked `exhaustive` repeats a smaller test at full size, or needs a browser or a database server. With the
marker's `one_in=5`, the first, sixth, ... of the test's parameters are part of the ordinary run. In the ordinary run
properties use a tenth of their examples, the same in each run.
"""

import math
import os
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

FLAG = "--exhaustive"
WORKERS_PER_CORE = 1.5
"""A third of the time a test waits for a server, a child process or a disk."""
SHARE = 10
"""One in so many examples is tried in the ordinary run."""
LUCK = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
_full = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption(FLAG, action="store_true", help="run the tests that are marked as exhaustive too")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples are tried."""
    global _full  # noqa: PLW0603 - decorators of test functions have no other way to know it
    _full = config.getoption(FLAG)
    # A slow machine or many discarded random examples do not count as failures.
    luck = {"deadline": None, "suppress_health_check": LUCK}
    settings.register_profile("exhaustive", **luck, derandomize=False, print_blob=True)
    settings.register_profile("ordinary", **luck, derandomize=True, database=None, max_examples=examples(100))
    settings.load_profile("exhaustive" if _full else "ordinary")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers `-n auto` starts."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return math.ceil(cores * WORKERS_PER_CORE)


def examples(full: int) -> int:
    """Return how many examples a property is tried with; EXAMPLES in the environment says it for all of them."""
    return int(os.environ.get("EXAMPLES", full if _full else max(full // SHARE, 5)))


def seed() -> int:
    """Return what chance begins with: the same in each ordinary run; SEED in the environment says it for all."""
    return int(os.environ.get("SEED", random.SystemRandom().randrange(10**6) if _full else 1))


def pytest_report_header(config: pytest.Config) -> str:
    """Say which tests run."""
    return "tests: all" if config.getoption(FLAG) else f"tests: all but the exhaustive ones, which {FLAG} adds"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked, unless the flag is given or `-m` asks for it."""
    if config.getoption(FLAG) or "exhaustive" in config.getoption("markexpr"):
        return
    counts: Counter[str] = Counter()
    left_out = [item for item in items if not _is_ordinary(item, counts)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _is_ordinary(item: pytest.Item, counts: Counter[str]) -> bool:
    """Return whether a test is part of every run; counts: how many of each function's parameters came before."""
    marker = item.get_closest_marker("exhaustive")
    if marker is None:
        return True
    name = item.nodeid.partition("[")[0]
    counts[name] += 1
    return "one_in" in marker.kwargs and counts[name] % marker.kwargs["one_in"] == 1 % marker.kwargs["one_in"]
