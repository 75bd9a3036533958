"""The question of `run-specialist`: in words, from a pipe, or both; a question never waits for standard input."""

import json
import os
import pty
import socket
import subprocess
import sys

import pytest

from run_specialist.cli import ask as query_words
from run_specialist.cli.ask import question_from
from tests.cli.conftest import MAIN
from tests.forked_program import run_forked

OFFLINE = ("--model", "offline", "--json", "--quiet")
UNREAD = "warning: the text on standard input was not read"


@pytest.fixture
def asked(write, call, store):
    """Return a function that asks in this process, and returns the question of the run and the error output."""
    write("finder")

    def ask(*words, **options):
        result = call("finder", *OFFLINE, *words, **options)
        assert result.exit_code == 0, result.output
        run = json.loads(result.stdout)["run_id"]
        from run_specialist.store.reader import Store

        with Store(f"sqlite:///{store}") as opened:
            return opened.load(run).question

    return ask


def test_words_are_joined(asked):
    """Words without quotes are one question, and options may stand between them."""
    assert asked("what", "do", "--tool-calls-limit", "3", "owls", "eat?") == "what do owls eat?"
    assert asked("  What do\nowls eat? ") == "  What do\nowls eat? "


def test_words_after_two_hyphens_may_look_like_options(asked):
    """After `--` every word belongs to the question."""
    assert asked("--", "what", "does", "--json", "-q") == "what does --json -q"
    assert asked("what", "--", "does", "--strict") == "what does --strict"


def test_a_pipe_is_the_question_if_there_is_no_other(asked):
    """Without QUERY, standard input is the question, as with `-`."""
    assert asked(input="What do owls eat?\n") == "What do owls eat?\n"
    assert asked("-", input="What do owls eat?\n") == "What do owls eat?\n"


def test_a_hyphen_is_replaced_by_the_pipe(asked):
    """The piped text is a paragraph between the words before and after the `-`."""
    assert asked("what", "is", "-", "about?", input="owls\nmice\n") == "what is\n\nowls\nmice\n\nabout?"
    assert asked("what is this?", "-", input="owls") == "what is this?\n\nowls"


@pytest.mark.parametrize(
    ("words", "given", "told"),
    [
        ((), "", "there is no question: QUERY is missing, and standard input is empty"),
        ((), " \n", "there is no question: QUERY is missing, and standard input is empty"),
        (("-", "-"), "x", "`-` means standard input, which can be read only once"),
        (("",), "x", "the question is empty"),
        (("why", "--fooo"), "", "quote the question, or put `--` before it"),
        (("what", "is", "-5"), "", "quote the question, or put `--` before it"),
    ],
)
def test_a_missing_or_unclear_question_is_refused(write, call, words, given, told):
    """Each case says in one line what to do, and exits with 2."""
    write("finder")
    result = call("finder", *words, "--model", "offline", input=given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr.splitlines()[-1]


def test_a_text_that_is_too_long_is_refused(asked, write, call, monkeypatch):
    """An endless pipe is not read for ever."""
    monkeypatch.setattr(query_words, "LARGEST", 9)
    assert asked(input="nine char") == "nine char"
    result = call("finder", *OFFLINE, input="ten charss")
    assert (result.exit_code, "standard input is longer than" in result.stderr) == (2, True)


def test_closed_standard_input_is_no_question(monkeypatch, capsys):
    """A program without standard input gets the reason instead of a traceback."""
    monkeypatch.setattr(sys, "stdin", None)
    assert question_from(["why?"]) == "why?"
    for words, told in ((None, "there is no question; use:"), (["-"], "standard input is closed")):
        with pytest.raises(Exception) as ended:  # noqa: PT011 - typer's own exit
            question_from(words)
        assert (ended.value.exit_code, told in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("give", ["pipe", "file", "socket"])
def test_text_that_was_not_read_is_mentioned_once(write, program, tmp_path, give):
    """A question without `-` does not read the pipe, the file or the socket, and says so, but not with --quiet."""
    write("finder")
    for flags, times in (((), 1), (("--quiet",), 0)):
        ours, theirs = socket.socketpair()
        (tmp_path / "text").write_text("owls")
        read_end, write_end = os.pipe()
        os.write(write_end, b"owls")
        ours.sendall(b"owls")
        with (tmp_path / "text").open() as file, ours, theirs:
            stdin = {"pipe": read_end, "file": file, "socket": theirs}[give]
            process = program("finder", "What do owls eat?", "--model", "offline", *flags, stdin=stdin)
            told = process.communicate()[1]
        os.close(read_end)
        os.close(write_end)
        assert (process.returncode, told.count(UNREAD)) == (0, times)


def test_a_question_does_not_wait_for_an_open_pipe(write, program):
    """A pipe that stays open and empty, as from a program that starts this one, is neither waited for nor mentioned."""
    write("finder")
    read_end, write_end = os.pipe()
    process = program("finder", "what", "do", "owls", "eat?", "--model", "offline", stdin=read_end)
    out, told = process.communicate()
    os.close(read_end)
    os.close(write_end)
    assert (process.returncode, "mice" in out, UNREAD in told) == (0, True, False)


def test_waiting_for_a_pipe_is_announced(write, program):
    """Without a question, and without any input for a second, a line says what is awaited; then the pipe is read."""
    write("finder")
    process = program("finder", "--model", "offline", stdin=subprocess.PIPE)
    first = process.stderr.readline()
    assert "waiting for the question on standard input" in first
    out, _ = process.communicate("What do owls eat?")
    assert (process.returncode, "mice" in out) == (0, True)


def test_a_terminal_without_a_question_gets_one_line(write, notes):
    """On a terminal nothing is read: one line says how to ask."""
    write("finder")
    ours, theirs = pty.openpty()
    done = run_forked([sys.executable, "-W", "error", "-c", MAIN, "finder"], stdin=theirs, capture_output=True)
    os.close(ours)
    os.close(theirs)
    told = done.stderr.decode().splitlines()
    assert (done.returncode, len(told)) == (2, 1)
    assert "there is no question; use: run-specialist NAME 'why" in told[0]
