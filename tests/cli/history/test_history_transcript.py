"""The commands `specialists transcript` and `report`."""

import json
import os
import stat
import sys
from contextlib import closing

import pytest

from run_specialist.cli.report import report_path
from run_specialist.record.messages import Message, ToolResult
from run_specialist.store.location import file_of, place
from run_specialist.store.writer import Writer
from tests.cli.history.commands import keep, listed, on_terminal, run_of
from tests.cli.specialists_command import MAIN, call
from tests.forked_program import run_forked
from tests.unit.store.finished_runs import write
from tests.unit.store.records import checkpointed, ended, opened

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
    """Each call is on one line, and its result is below it."""
    result = call("transcript", "run_a")
    assert (result.exit_code, result.stdout, result.stderr) == (0, TOLD, "")


def test_a_transcript_as_json(three):
    """The output has the run and its messages in order."""
    told = json.loads(call("transcript", "run_a", "--json").stdout)
    assert {key: told[key] for key in ("run_id", "specialist", "status")} == {
        "run_id": "run_a", "specialist": "looker", "status": "answered",
    }  # fmt: skip
    pair = ["tool_call", "tool_result"]
    assert [row["kind"] for row in told["messages"]] == ["user", *pair, *pair]


def test_a_transcript_marks_errors_and_keeps_line_breaks(store):
    """Two calls of one turn come first, then their results with the numbers of the calls."""
    blocks = [{"type": "tool_use", "id": f"c{at}", "name": "look", "input": {}} for at in (1, 2)]
    results = [ToolResult("c2", "second", is_error=True), ToolResult("c1", "first\n\n  line"), ToolResult("x", "lost")]
    said = [Message.user("Q"), Message("assistant", tuple(blocks)), Message.results(results)]
    keep(run_a=[opened("run_a"), checkpointed(1, 0, said)])
    told = call("transcript", "run_a").stdout.split("\n\n", 2)[2]
    assert told == (
        "call 1  look {}\ncall 2  look {}\n\nresult 2, an error\n  second\n\nresult 1\n  first\n\n    line\n\n"
        "result\n  lost\n"
    )


@pytest.mark.exhaustive
def test_control_characters_are_replaced_on_a_terminal(store):
    """Control characters in questions, results, ids and names are replaced; the command's own colours are kept."""
    evil = "\x1b[31mred\x07\u202e"
    block = {"type": "tool_use", "id": "c1", "name": evil, "input": {evil: evil}}
    said = [Message.user(evil), Message("assistant", (block,)), Message.results([ToolResult("c1", evil)])]
    keep(run_a=[opened("run_a", question=evil, specialist=evil), checkpointed(1, 0, said), *ended("run_a")])
    for arguments in (["runs", "run_a"], ["transcript", "run_a"]):
        shown, code = on_terminal(*arguments)
        assert code == 0
        assert "\ufffd[31mred\ufffd\ufffd" in shown
        assert ("\x1b[31m" in shown, "\x07" in shown, "\u202e" in shown) == (False, False, False)
        assert "\x1b[" in shown
    plain, _ = on_terminal("transcript", "run_a", NO_COLOR="1")
    assert "\x1b" not in plain


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
    nowhere = call("report", "run_a", "--out", "no/such/folder.html")
    assert (nowhere.exit_code, nowhere.stdout) == (2, "")
    assert "no/such/folder.html" in nowhere.stderr


def test_a_report_that_cannot_be_written_beside_the_store_names_the_flag(three, tmp_path):
    """If the page cannot be written beside the store, the error names the path, the reason and `--out`."""
    (tmp_path / "report-run_a.html").mkdir()
    refused = call("report", "run_a")
    told = f"{tmp_path}/report-run_a.html cannot be written: Is a directory; name another file with --out"
    assert (refused.exit_code, refused.stdout, told in refused.stderr) == (2, "", True)


def test_a_link_beside_the_store_is_not_followed(three, tmp_path):
    """A link with the name of the page, which another user may have made, is not written through."""
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report-run_a.html").symlink_to(tmp_path / "mine.txt")
    refused = call("report", "run_a")
    assert (refused.exit_code, "already exists; use --force" in refused.stderr) == (2, True)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_the_report_of_a_server_goes_to_the_default_folder(tmp_path, monkeypatch):
    """A database server has no folder: the page is written into that of the default store, which is private."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = report_path("postgresql://me@host/db", "run_a")
    assert (path.name, path.is_relative_to(tmp_path)) == ("report-run_a.html", sys.platform == "linux")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("command", [["runs", "--delete", "--yes"], ["resume"], ["transcript"], ["report"]])
@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_run_id_is_refused(three, command, empty):
    """An empty prefix matches every id: an unset variable in a shell script must not delete all runs."""
    before = listed()
    said = call(*command, empty)
    assert (said.exit_code, "the run id is empty" in said.stderr) == (2, True)
    assert listed() == before
