"""A copy of what the examples of the documents read."""

import shutil

import pytest

from tests.docs.markdown import ROOT


@pytest.fixture
def own_notes(tmp_path, monkeypatch):
    """Change into a copy of this project's notes and specialists."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    for folder in ("thoughts", "specialists"):
        shutil.copytree(ROOT / folder, root / folder)
    monkeypatch.chdir(root)
    return root
