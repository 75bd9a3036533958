"""Help texts are whole in narrow terminals."""

import re

import pytest
from typer.testing import CliRunner

from run_specialist.cli import ask, manage

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
def test_no_option_is_split_at_its_hyphens(words):
    """Lines break only between words."""
    for app in (manage.app, ask.app) if not words else (manage.app,):
        assert not any(line.endswith("-") for line in help_of(app, words, 58).splitlines())


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS), ("fleet", "status")])
def test_a_help_text_names_no_python_type(words):
    """Arguments are shown as `NAME`, not as `{NAME} <str>`, and options with what they take."""
    for app in (manage.app, ask.app) if not words else (manage.app,):
        assert not re.search(r"<\w+|\{[A-Z]+\}", help_of(app, words, 78))
