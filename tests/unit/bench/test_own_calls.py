"""The work of a request, counted in function calls, which no busy machine changes."""

import re
import subprocess
import sys

import pytest

OWN, EVERY = 295, 1_570
"""Calls per request when this was written; more than a tenth above them is a regression."""


@pytest.mark.exhaustive
def test_a_request_takes_no_more_function_calls_than_before():
    """A stored run with one `read` a turn: calls of this package, and with those of the libraries."""
    done = subprocess.run([sys.executable, "-m", "bench.own_calls", "25"], capture_output=True, text=True, check=True)
    own, every = map(int, re.findall(r"\d+", done.stdout))
    assert own <= 1.1 * OWN
    assert every <= 1.1 * EVERY
