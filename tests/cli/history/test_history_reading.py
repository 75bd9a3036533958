"""`specialists runs --follow`, `transcript` on a terminal, in a pager and in a pipe, and `report`."""

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from run_specialist.cli.console import write_private
from run_specialist.cli.report import report_path
from run_specialist.record.messages import Message, ToolResult
from run_specialist.store.location import file_of, place
from run_specialist.store.writer import Writer
from tests.cli.history.conftest import NOON, here, keep, run_of
from tests.cli.specialists_command import MAIN, call
from tests.forked_program import ForkedProgram, run_forked
from tests.screen import run_on_terminal, screen
from tests.unit.store.finished_runs import write
from tests.unit.store.records import begun, checkpointed, ended, opened


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


@pytest.mark.exhaustive
def test_new_and_changed_runs_are_printed_as_json(store, tmp_path):
    """With `--json` each line is a run: the newest, then those that begin or end; a missing store is waited for."""
    with following("--json") as process:
        assert "there is no store at" in process.stderr.readline()
        with closing(Writer(place(None))) as writer:
            begin(writer, "first")
            assert json.loads(process.stdout.readline())["run_id"] == "first"
    call("runs", "--delete", "--all", "--yes")
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


@pytest.mark.exhaustive
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
@pytest.mark.parametrize("columns", [40, 200])
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


COMMAND = ["specialists", "transcript", "last"]


@pytest.fixture
def long(store):
    """A stored run whose transcript is longer than the screens of the tests."""
    answer = {
        "answer": "It is **three**.\n\n|a|b|\n|-|-|\n|c|d|",
        "evidence": [{"source": "n.md:3", "quote": "three mice"}],
        "gaps": ["what toads eat"],
    }
    calls = [
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"query": "word " * 30}},
        {"type": "tool_use", "id": "c2", "name": "respond", "input": answer},
    ]
    results = [ToolResult("c1", "".join(f"line {number}\n" for number in range(60))), ToolResult("c2", "ok")]
    said = [Message.user("What *is* it?"), Message("assistant", tuple(calls)), Message.results(results)]
    keep(run_a=[opened("run_a", frozen=here()), checkpointed(1, 0, said), *ended("run_a")])


@pytest.fixture
def recorder(tmp_path):
    """A pager that records its input and its settings."""
    path = tmp_path / "recorder"
    path.write_text(f'#!/bin/sh\ncat > {tmp_path}/paged\nprintf "%s" "$LESS" > {tmp_path}/less\necho "was paged"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.exhaustive
def test_a_long_transcript_is_paged(long, recorder, tmp_path):
    """The pager gets the whole text, only with colors of the command, and the settings with which git runs `less`."""
    written, _, code = run_on_terminal(COMMAND, rows=20, PAGER=f"{recorder} -x")
    assert (written.replace("\r\n", "\n"), code) == ("was paged\n", 0)
    paged = (tmp_path / "paged").read_text("utf-8")
    assert paged.count("line 59") == 1
    assert "\x1b[1mthree\x1b[0m" in paged
    assert (tmp_path / "less").read_text() == "FRX"
    run_on_terminal(COMMAND, rows=20, PAGER=str(recorder), LESS="-i")
    assert (tmp_path / "less").read_text() == "-i"
    evil = "\x1b[2J\x07\u202e" + "line\n" * 60
    keep(run_b=[opened("run_b", question=evil, frozen=here()), checkpointed(1, 0, [Message.user(evil)])])
    run_on_terminal(COMMAND, rows=20, PAGER=str(recorder))
    paged = (tmp_path / "paged").read_text("utf-8")
    assert "\ufffd[2J\ufffd\ufffd" in paged
    assert ("\x1b[2J" in paged, "\x07" in paged, "\u202e" in paged) == (False, False, False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("columns", [40, 200])
def test_the_transcript_is_wrapped_and_its_answer_rendered(long, columns):
    """Messages are indented below their labels and broken at spaces; the answer is rendered with quotes and gaps."""
    written, _, code = run_on_terminal(COMMAND, rows=500, columns=columns)
    lines = screen(written, columns)
    assert code == 0
    assert [line for line in lines if len(line) > columns] == []
    assert [one for one in lines if one.startswith("call")][1] == "call 2  respond"
    for line in (
        "user",
        "  What *is* it?",
        "  It is three.",
        "  Evidence",
        "  • n.md:3",
        "      three mice",
        "  • what toads eat",
    ):
        assert line in lines
    assert not any("wor\n" in line or "**" in line for line in lines)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "settings",
    [
        {"PAGER": pager}
        for pager in ("/no/pager", "head -1", "kill -9 $$", "kill -INT $PPID; cat > /dev/null", "cat", "")
    ]
    + [{"TERM": "dumb", "PAGER": "false"}],
)
def test_a_pager_that_ends_early_or_is_not_wanted_is_no_failure(long, settings):
    """Leaving it, a killed one, Ctrl-C in it end the command quietly; `cat`, none and a dumb terminal mean no pager."""
    results = [ToolResult("c1", "x" * 70 + "\n" * 3_000 + "y" * 300_000 + "\nline 59")]
    calls = ({"type": "tool_use", "id": "c1", "name": "look", "input": {}},)
    said = [Message.user("Q"), Message("assistant", calls), Message.results(results)]
    keep(run_b=[opened("run_b", frozen=here()), checkpointed(1, 0, said)])
    written, _, code = run_on_terminal(COMMAND, rows=20, **settings)
    assert (code, "Traceback" in written, "rror" in written) == (0, False, False)
    if settings["PAGER"] in {"cat", "", "false"}:
        assert "line 59" in written


TOLD = """\
run_a  looker  answered  2026-10-13 17:30

user
  What is known?

call 1  look {"query": "é"}

result 1
  result 1

call 2  look {"query": "é"}

result 2
  result 2
"""


def test_a_transcript_shows_calls_and_results_as_text(three):
    """Each call is on one line, its result below it; those of one turn come first; errors and line breaks stay."""
    result = call("transcript", "run_a")
    assert (result.exit_code, result.stdout, result.stderr) == (0, TOLD, "")
    blocks = [{"type": "tool_use", "id": f"c{at}", "name": "look", "input": {}} for at in (1, 2)]
    results = [ToolResult("c2", "second", is_error=True), ToolResult("c1", "first\n\n  line"), ToolResult("x", "lost")]
    said = [Message.user("Q"), Message("assistant", tuple(blocks)), Message.results(results)]
    keep(run_d=[opened("run_d"), checkpointed(1, 0, said)])
    told = call("transcript", "run_d").stdout.split("\n\n", 2)[2]
    assert told == (
        "call 1  look {}\ncall 2  look {}\n\nresult 2, an error\n  second\n\nresult 1\n  first\n\n    line\n\n"
        "result\n  lost\n"
    )


def test_a_report_is_written(three, tmp_path):
    """The report goes beside the store, named after the run, and its path is printed; a named file is kept."""
    result = call("report", "run_a")
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path}/report-run_a.html\n")
    page = (tmp_path / "report-run_a.html").read_text("utf-8")
    assert "What is known?" in page
    assert call("report", "run_a").stdout == result.stdout
    assert call("report", "run_a", "--out", "report-run_a.html").stdout == "report-run_a.html\n"
    again = call("report", "run_a", "--out", "report-run_a.html")
    assert (again.exit_code, again.stdout) == (2, "")
    assert "report-run_a.html already exists; use --force to overwrite it" in again.stderr
    assert call("report", "last", "--out", "report-run_a.html", "--force").stdout == "report-run_a.html\n"
    assert "run_c" in (tmp_path / "here" / "report-run_a.html").read_text("utf-8")
    for flag in ("--out", "--output"):
        printed = call("report", "run_a", flag, "-")
        assert (printed.stdout, printed.exit_code) == (page, 0)


def mode(path):
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o022, 0o277])
def test_a_report_is_private_also_if_it_replaces_another(three, tmp_path, umask):
    """Its mode is 0600 with any umask, also behind a link, which is kept; who reads the old file reads on in it."""
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.write_text("old")
    page.chmod(0o644)
    link.symlink_to(page)
    assert "already exists" in call("report", "run_a", "--out", str(link)).stderr
    assert (page.read_text(), mode(page)) == ("old", 0o644)
    before = os.umask(umask)
    try:
        assert call("report", "run_a").exit_code == 0
        with page.open() as reading:
            assert call("report", "run_a", "--out", str(link), "--force").exit_code == 0
            assert reading.read() == "old"
    finally:
        os.umask(before)
    assert page.read_text().startswith("<!doctype html>")
    assert (link.is_symlink(), mode(page), mode(tmp_path / "report-run_a.html")) == (True, 0o600, 0o600)


def test_an_unwritable_report_leaves_no_temporary_file(three, tmp_path, monkeypatch):
    """The error names the file; an existing one keeps its content; a pipe is written to and not replaced."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_private(tmp_path / "pipe", b"page", overwrite=True)
    assert os.read(reading, 9) == b"page"
    os.close(reading)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    said = call("report", "run_a", "--out", "nowhere/page.html")
    assert (said.exit_code, said.stderr.count("\n")) == (2, 1)
    assert "No such file or directory: nowhere/page.html" in said.stderr
    page = tmp_path / "page.html"
    page.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("run_specialist.cli.console.Path.chmod", full)
    before = sorted(tmp_path.iterdir())
    said = call("report", "run_a", "--out", str(page), "--force")
    assert f"No space left on device: {page}" in said.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert page.read_text() == "old"


def test_a_report_beside_the_store_replaces_nothing_else(three, tmp_path):
    """A link with the name of the page, perhaps of another user, is not followed; a folder is named, with `--out`."""
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report-run_a.html").symlink_to(tmp_path / "mine.txt")
    refused = call("report", "run_a")
    assert (refused.exit_code, "already exists; use --force" in refused.stderr) == (2, True)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    (tmp_path / "report-run_b.html").mkdir()
    refused = call("report", "run_b")
    told = f"{tmp_path}/report-run_b.html cannot be written: Is a directory; name another file with --out"
    assert (refused.exit_code, refused.stdout, told in refused.stderr) == (2, "", True)


def test_the_report_of_a_server_goes_to_the_default_folder(tmp_path, monkeypatch):
    """A database server has no folder: the page is written into that of the default store, which is private."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = report_path("postgresql://me@host/db", "run_a")
    assert (path.name, path.is_relative_to(tmp_path)) == ("report-run_a.html", sys.platform == "linux")
    assert mode(path.parent) == 0o700


@pytest.mark.exhaustive
def test_shells_complete_ids(three):
    """Completion offers the run ids in the store, and nothing if there is no store."""

    def offered(*words):
        line = {"_SPECIALISTS_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": "2"}
        return run_forked(
            [sys.executable, "-W", "error", "-c", MAIN], env=os.environ | line, capture_output=True, text=True
        )

    done = offered("specialists", "transcript", "run_")
    assert (done.stdout.split(), done.stderr) == (["run_c", "run_b", "run_a"], "")
    file_of(place(None).url).unlink()
    done = offered("specialists", "transcript", "run_")
    assert (done.stdout.split(), done.stderr) == ([], "")


def test_commands_accept_sqlite_and_postgresql_urls(store_url, store):
    """The commands accept the URL of a store, in SQLite and in PostgreSQL."""
    with closing(Writer(place(store_url))) as writer:
        write(writer, run_a=run_of("run_a"))
    told = json.loads(call("runs", "--store", store_url, "--json").stdout)
    assert [run["run_id"] for run in told["runs"]] == ["run_a"]
    assert told["size_bytes"] > 1_000
    rows = json.loads(call("transcript", "last", "--store", store_url, "--json").stdout)["messages"]
    assert len(rows) == 3
    assert json.loads(call("runs", "run_a", "--delete", "-y", "--store", store_url, "--json").stdout)["deleted"] == [
        "run_a"
    ]
