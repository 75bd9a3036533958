"""Fixtures for the tests of `map`: a specialist, items, and the command in this process."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.specialists_command import call


@pytest.fixture
def finder(write: Callable[..., Path], store: Path) -> Path:
    """Write a specialist that uses a model with a known price; runs are stored."""
    del store
    return write("finder", "model: haiku", "tools: search, read", "patience: 0")


@pytest.fixture
def items(notes: Path) -> Callable[[Sequence[str]], Path]:
    """Return a function that writes a file of items."""

    def write_items(given: Sequence[str], name: str = "items.txt") -> Path:
        path = notes / name
        path.write_text("".join(f"{one}\n" for one in given))
        return path

    return write_items


@pytest.fixture
def map_(finder: Path) -> Callable[..., Result]:
    """Return a function that calls the command with a question about each item."""
    del finder

    def call_map(*arguments: str, **options: object) -> Result:
        return call("map", "finder", *arguments, "--question", "What about {item}?", **options)

    return call_map
