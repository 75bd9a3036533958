"""Help texts are whole in narrow terminals."""

import os
import re
import shutil

import pytest
from typer.testing import CliRunner

from run_specialist.cli import ask, manage
from run_specialist.cli.help import HelpFormatter

COMMANDS = [one.name or one.callback.__name__ for one in manage.app.registered_commands]


def help_of(app, words, width):
    """Return the help text in so many columns; on a terminal, two columns are left free."""
    return CliRunner().invoke(app, [*words, "--help"], prog_name="specialists", terminal_width=width).stdout


@pytest.mark.parametrize("width", [50, 58, 78])
def test_the_list_of_commands_has_whole_summaries(width):
    """Each command is listed with the first sentence of its help, at any width."""
    listed = " ".join(help_of(manage.app, [], width).split("Specialist files:\n")[1].split())
    for command in manage.app.registered_commands:
        first, *_ = command.callback.__doc__.split("\n\n")
        assert f"{command.name or command.callback.__name__} {' '.join(first.split())}" in listed


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize("width", [58, 78])
@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)])
def test_no_line_of_a_help_text_is_wider_than_the_terminal(words, width):
    """Every line fits into 60 and into 80 columns."""
    for app in (manage.app, ask.app) if not words else (manage.app,):
        text = help_of(app, words, width)
        assert all(len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)])
def test_a_help_text_in_40_columns_breaks_only_between_words(words):
    """Every line fits, the words are those of a wide terminal, and no option is split at its hyphens."""
    for app in (manage.app, ask.app) if not words else (manage.app,):
        text = help_of(app, words, 38)
        assert all(len(line) <= 38 for line in text.splitlines())
        assert text.split() == help_of(app, words, 78).split()
        assert not any(line.endswith("-") for line in text.splitlines())


@pytest.mark.parametrize(("columns", "width"), [(10, 24), (40, 38), (51, 49), (52, 50), (80, 78), (200, 78)])
def test_the_width_of_a_help_text_follows_that_of_the_terminal(columns, width, monkeypatch):
    """Two columns are left free, and long lines are not longer than in other programs."""
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
    assert HelpFormatter().width == width


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS), ("fleet", "status")])
def test_a_help_text_names_no_python_type(words):
    """Arguments are shown as `NAME`, not as `{NAME} <str>`, and options with what they take."""
    for app in (manage.app, ask.app) if not words else (manage.app,):
        assert not re.search(r"<\w+|\{[A-Z]+\}", help_of(app, words, 78))
