"""A folder of files for the tests of this folder."""

import pytest


@pytest.fixture
def root(tmp_path):
    """Create a folder with notes, plans and a top-level file."""
    for name in ("notes/owls.md", "notes/deep/bats.md", "plans/next.md", "top.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"all about {name}\n")
    return tmp_path
