"""Whoever swaps files and folders for links while the tools read, nothing outside the root is shown.

SANDBOX_TRIES says how often each is tried, 15 times unless it is set.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox.sandbox import Sandbox
from tests.link_swapper import can_swap, swapped

TRIES = int(os.environ.get("SANDBOX_TRIES", "15"))
CALLS = [
    ("read", {"path": "folder/x.md"}),
    ("read", {"path": "file.md"}),
    ("ls", {"path": "folder"}),
    ("ls", {"path": "."}),
    ("glob", {"pattern": "**"}),
    ("grep", {"pattern": "word", "path": "folder"}),
    ("search", {"query": "the secret word"}),
]


@pytest.fixture
def restless(root: Path, write, tmp_path: Path) -> Iterator[Path]:
    """Make a root in which a folder and a file are links to secrets half of the time."""
    if not can_swap():
        pytest.skip("only Linux exchanges two names in one step")
    write({"folder/x.md": "harmless", "file.md": "harmless", "other/y.md": "harmless", ".gitignore": "hidden/"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("the secret word is marzipan\n")
    (outside / "marzipan.md").write_text("the secret word is marzipan\n")
    (tmp_path / "one").symlink_to(outside)
    (tmp_path / "two").symlink_to(outside / "x.md")
    with swapped((root / "folder", tmp_path / "one"), (root / "file.md", tmp_path / "two")):
        yield root


def test_links_that_come_and_go_show_nothing(call, restless):
    """No tool shows a word or a name from outside, and what it raises is an error for the model."""
    for _ in range(TRIES):
        for name, arguments in CALLS:
            try:
                shown = call(name, **arguments)
            except ToolError as error:
                shown = str(error)
            assert "marzipan" not in shown, name


def test_a_file_is_opened_where_it_was_found_or_not_at_all(restless):
    """What is opened by a path that was checked is never what a link on the way leads to."""
    sandbox = Sandbox(restless)
    for _ in range(20 * TRIES):
        for path in ("folder/x.md", "file.md"):
            with suppress(OSError), sandbox.open(path) as file:
                assert file.read() == b"harmless"
