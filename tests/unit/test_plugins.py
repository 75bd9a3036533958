"""The tiers of `tests/plugins`, checked by running pytest on small generated tests."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = f"""
[pytest]
addopts = --import-mode=importlib --strict-markers
markers = exhaustive
pythonpath = {ROOT}
"""
TIERS = """
import pytest

@pytest.mark.exhaustive
def test_large():
    pass

@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("number", range(7))
def test_sampled(number):
    pass

def test_small():
    pass
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("flags", "passed"), [((), "4 passed"), (("--exhaustive",), "9 passed"), (("-m", "exhaustive"), "8 passed")]
)
def test_exhaustive_runs_the_tests_skipped_otherwise(tmp_path, flags, passed):
    """`--exhaustive` runs the tests that are skipped otherwise, and `-m` selects marked tests.

    An ordinary run has the first of each three parameters where the marker says so.
    """
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.plugins.environment", "tests.plugins.tiers"]\n')
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_one.py").write_text(TIERS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *flags, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert passed in done.stdout
