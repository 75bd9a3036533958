"""A project for the tests of the API."""

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change into a project with one note and one specialist, and set an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "project"
    for folder in (".git", "specialists", "notes"):
        (root / folder).mkdir(parents=True)
    (root / "notes" / "owls.md").write_text("Owls eat mice at night.\n")
    (root / "specialists" / "owls.md").write_text("---\nname: owls\ndescription: d\ntool_calls_limit: 10\n---\nOwls.\n")
    monkeypatch.chdir(root)
    return root
