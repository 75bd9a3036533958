"""Notes on standard error: wrapped at words on a terminal, and a command in them stays in one piece."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.cli.console import wrapped
from tests.screen import run_on_terminal, screen

WORDS = st.lists(st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=20), max_size=30)


@given(WORDS, st.integers(5, 100))
def test_lines_break_only_between_words(words, width):
    """All words are kept in order; a line is wider than the terminal only if it is a single word."""
    lines = wrapped(" ".join(words), width)
    assert " ".join(lines).split() == words
    assert all(len(line) <= width or len(line.split()) <= 1 for line in lines)
    assert all(line.startswith("  ") for line in lines[1:])


def test_a_command_is_one_word():
    """A command that does not fit into the rest of a line begins a new one, and is never broken."""
    command = "specialists resume 20261122-230128 --tool-calls-limit 12"
    lines = wrapped(f"the limit was reached; to resume: {command}", 60, command)
    assert lines == ["the limit was reached; to resume:", f"  {command}"]
    assert wrapped(f"a {command} b", 20, command) == ["a", f"  {command}", "  b"]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_notes_of_a_run_are_wrapped(write, store, columns):
    """The notes of a run that landed are wrapped at words; a pipe gets each on one line."""
    write("finder")
    command = ["run-specialist", "finder", "What do owls eat?", "--model", "offline", "--tool-calls-limit", "1"]
    written, _, _ = run_on_terminal(command, columns=columns)
    lines = screen(written, columns)
    resume = next(line for line in lines if "specialists resume" in line or line.strip().startswith("specialists"))
    text = " ".join(" ".join(lines).split())
    assert "ranked search and verbatim quotes; set ANTHROPIC_API_KEY" in text
    assert "specialists resume" in resume
    _, piped, _ = run_on_terminal(command, columns=columns, outputs="out")
    assert all(line.startswith("run-specialist: ") for line in piped.splitlines())
    # The width is that of standard error, also if standard output is a pipe.
    written, _, _ = run_on_terminal(command, columns=columns, outputs="err")
    assert "ranked search and verbatim quotes; set ANTHROPIC_API_KEY" in " ".join(
        " ".join(screen(written, columns)).split()
    )


@pytest.mark.exhaustive
def test_notes_have_no_style_on_a_dumb_terminal(write):
    """On a terminal that understands no escape sequences, neither the live view nor the notes use one."""
    write("finder")
    command = ["run-specialist", "finder", "What do owls eat?", "--model", "offline", "--store", "none"]
    written, _, _ = run_on_terminal(command, outputs="err", TERM="dumb")
    assert "quotes found" in " ".join(written.split())
    assert "\x1b" not in written
