"""Build the commands from their functions once: it takes longer than most of the commands that tests call."""

import functools

import pytest

from tests.plugins.environment import runs_tests


def pytest_configure(config: pytest.Config) -> None:
    """Cache the commands that `CliRunner` calls; as in a program, they are the same for every call."""
    if runs_tests(config):
        from typer import testing

        testing._get_command = functools.cache(testing._get_command)
