"""`specialists runs --follow`, as a program that is interrupted."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from run_specialist.store.location import place
from run_specialist.store.writer import Writer
from tests.cli.history.commands import NOON, here, keep, run_of
from tests.cli.specialists_command import MAIN, call
from tests.forked_program import ForkedProgram
from tests.unit.store.finished_runs import write
from tests.unit.store.records import begun, ended, opened


@contextmanager
def following(*arguments, **options):
    """Start the command, and kill it if the block leaves it running."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    command = [sys.executable, "-W", "error", "-c", MAIN, "runs", "--follow", *arguments]
    with ForkedProgram(command, **given) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(writer, run_id, **changed):
    """Store the beginning of a run that this process works on."""
    _, *rest = begun(run_id)
    write(writer, **{run_id: [opened(run_id, frozen=here(), **changed), *rest]})


def test_new_and_changed_runs_are_printed_as_json(store, tmp_path):
    """With `--json` each line is a run: the newest at the beginning, then those that begin or end, until Ctrl-C."""
    now = time.time()
    keep(old=run_of("old", now - 90), new=run_of("new", now - 80), other=run_of("other", now, project="/else"))
    with following("--json", "--limit", "1") as process, closing(Writer(place(None))) as writer:

        def printed():
            told = json.loads(process.stdout.readline())
            return told["run_id"], told["status"]

        assert printed() == ("new", "answered")
        begin(writer, "fresh")
        assert printed() == ("fresh", "running")
        write(writer, fresh=[replace(ended("fresh")[0])])
        assert printed() == ("fresh", "answered")
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
        assert process.returncode == 130


def test_rows_are_printed_in_a_pipe_with_children_below_their_parent(store):
    """In a pipe, each run is a line after the header, oldest first; a child is indented."""
    keep(top=run_of("top", NOON), sub=run_of("sub", NOON + 1, parent_id="top"))
    with following() as process:
        rows = [process.stdout.readline().split("  ") for _ in range(3)]
        assert [row[0] or row[1] for row in rows] == ["RUN", "top", "sub"]
        assert [row[0] for row in rows] == ["RUN", "top", ""]
        process.send_signal(signal.SIGINT)
        assert (process.wait(), process.stderr.read()) == (130, "")


@pytest.mark.exhaustive
def test_a_missing_store_is_waited_for(store):
    """If there is no store yet, one line says so, and the first run that is stored is printed."""
    with following("--json") as process:
        assert "there is no store at" in process.stderr.readline()
        with closing(Writer(place(None))) as writer:
            begin(writer, "first")
            assert json.loads(process.stdout.readline())["run_id"] == "first"


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_rows_fit_a_terminal(store, columns):
    """On a terminal the rows fit its width; Ctrl-C ends it with code 130 and no message."""
    run_id = "20261122-112233-abcdef0123"
    keep(**{run_id: run_of(run_id, question="Why? " * 99)})
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    with following(stdin=theirs, stdout=theirs, stderr=theirs, text=False, env=env) as process:
        os.close(theirs)
        shown = b""
        while b"Why?" not in shown or not shown.endswith(b"\n"):
            shown += os.read(ours, 65_536)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    os.close(ours)
    lines = shown.decode().splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[1].startswith(run_id)


def test_it_excludes_a_deletion_and_last(store):
    """`--follow` cannot be combined with `--delete`, nor follow `last`."""
    for flags, told in (
        (["--delete", "--all"], "--follow and --delete exclude each other"),
        (["last"], "--follow needs the id"),
    ):
        refused = call("runs", "--follow", *flags)
        assert (refused.exit_code, told in refused.stderr, refused.stderr.count("\n")) == (2, True, 1)
