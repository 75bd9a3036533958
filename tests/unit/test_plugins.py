"""The tiers of `tests/plugins`, checked by running pytest on small generated tests."""

import re
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


RUNS = """
import pytest

for flags in [], ["--exhaustive"], ["-m", "exhaustive"]:
    pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *flags])
"""


@pytest.mark.exhaustive
def test_exhaustive_runs_the_tests_skipped_otherwise(tmp_path):
    """An ordinary run has two of the first of each N parameters, `--exhaustive` all, and `-m` selects marked tests."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.plugins.environment", "tests.plugins.tiers"]\n')
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_one.py").write_text(TIERS)
    command = [sys.executable, "-c", RUNS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert re.findall(r"\d+ passed", done.stdout) == ["3 passed", "9 passed", "8 passed"], done.stdout
