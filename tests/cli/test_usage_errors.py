"""Usage errors are wrapped between words on a terminal, like all other messages."""

import io
from types import SimpleNamespace

import pytest
import typer
from typer.main import get_command

from run_specialist.cli import ask, manage, usage_errors
from run_specialist.cli.usage_errors import wrap_usage_error

LONG = "'done' is not a status; expected one of running, interrupted, answered, landed, partial, failed, aborted"
_USAGE_ERROR = typer.BadParameter.__mro__[1]  # of click, or of the copy of click in typer


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self):
        """Return True."""
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal with 40 columns."""
    monkeypatch.setattr(usage_errors, "sys", SimpleNamespace(stderr=Terminal()))
    monkeypatch.setenv("COLUMNS", "40")


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("app", "words"),
    [
        (manage.app, ["runs", "--status", "done"]),
        (manage.app, ["lst"]),
        (manage.app, ["fleet", "pause"]),
        (manage.app, ["new", "--tool", "x"]),
        (ask.app, ["thoughts-analyzer", "Why", "--tool-call-limit", "3"]),
    ],
)
def test_a_usage_error_of_any_command_fits_the_terminal(app, words):
    """Each line fits into 40 columns, with its label."""
    with pytest.raises(_USAGE_ERROR) as caught:
        get_command(app).main(words, prog_name="specialists", standalone_mode=False)
    lines = f"Error: {caught.value.format_message()}".splitlines()
    assert len(lines) > 1 or words in (["lst"], ["fleet", "pause"])
    assert all(len(line) <= 40 for line in lines)


@pytest.mark.usefixtures("terminal")
def test_a_usage_error_is_wrapped_once_and_keeps_its_words():
    """The contexts of a command and of its group both see the error."""
    error = typer.BadParameter(LONG)
    before = error.format_message()
    wrap_usage_error(error)
    wrapped = error.format_message()
    assert wrapped.split() == before.split()
    wrap_usage_error(error)
    assert error.format_message() == wrapped


def test_without_a_terminal_a_usage_error_stays_on_one_line():
    """A program that reads standard error finds the message unchanged; other exceptions are never touched."""
    error, other = typer.BadParameter(LONG), KeyError("x")
    before = error.format_message()
    wrap_usage_error(error)
    wrap_usage_error(other)
    assert (error.format_message(), vars(other)) == (before, {})
