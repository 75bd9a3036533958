"""Nothing outside the root is shown, even while files and folders are being swapped for links.

SANDBOX_TRIES sets the number of tries, 15 by default.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox import Sandbox
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
    """Create a root in which a folder and a file are constantly swapped for links to secrets."""
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


def test_links_swapped_during_reads_show_nothing(call, restless):
    """No tool shows text or names from outside, and each error is a ToolError."""
    for _ in range(TRIES):
        for name, arguments in CALLS:
            try:
                shown = call(name, **arguments)
            except ToolError as error:
                shown = str(error)
            assert "marzipan" not in shown, name


def test_opening_a_checked_path_never_follows_a_swapped_link(restless):
    """Opening a checked path never opens the target of a link that replaced a part of it."""
    sandbox = Sandbox(restless)
    for _ in range(20 * TRIES):
        for path in ("folder/x.md", "file.md"):
            with suppress(OSError), sandbox.open(path) as file:
                assert file.read() == b"harmless"
