"""Fixtures for the tests of `specialists eval`: a specialist with a price, its cases, and the command."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.specialists_command import call

CASES = """\
cases:
- name: owls
  inputs: What about owls?
  evaluators: [Contains: mice, CitesPath: notes/owls.md, QuotesVerified]
- name: toads
  inputs: What about toads?
  evaluators: [Contains: winter, MaxToolCalls: 2]
"""


@pytest.fixture
def finder(write: Callable[..., Path], store: Path, notes: Path) -> Path:
    """Write a specialist and its cases; runs are stored."""
    del store
    (notes / "specialists" / "finder.evals.yaml").write_text(CASES)
    return write("finder", "model: haiku", "tools: search, read", "patience: 0")


@pytest.fixture
def cases(finder: Path) -> Callable[[str], Path]:
    """Return a function that replaces the cases."""

    def write_cases(text: str) -> Path:
        path = finder.with_name("finder.evals.yaml")
        path.write_text(text)
        return path

    return write_cases


@pytest.fixture
def eval_(finder: Path) -> Callable[..., Result]:
    """Return a function that calls the command."""
    del finder

    def call_eval(*arguments: str, **options: object) -> Result:
        return call("eval", "finder", *arguments, **options)

    return call_eval
