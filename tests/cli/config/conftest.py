"""Fixtures for the tests of config files: files of the project and of the user."""

import pytest

QUESTION = ("what", "do", "owls", "eat?")


@pytest.fixture
def project_file(notes):
    """Return a function that writes the table of the project."""

    def write(*lines):
        (notes / "pyproject.toml").write_text("\n".join(["[tool.run-specialist]", *lines, ""]))

    return write


@pytest.fixture
def user_file(notes):
    """Return a function that writes the user's file."""

    def write(*lines):
        path = notes.parent / "home/.config/run-specialist/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]))
        return path

    return write
