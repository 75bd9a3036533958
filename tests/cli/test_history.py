"""The commands that show what was kept, in this process, as programs, and on a terminal."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from run_specialist.cli.manage import app
from run_specialist.record.messages import Message, ToolResult
from run_specialist.store.location import file_of, place
from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, change, ended, opened, outcome, stood, turn_of

MAIN = "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()"
NOON = 1_795_348_800.0
"""2026-11-22, 12:00 UTC."""
DAY = 86_400.0
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Name a store for all commands, and enter an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield str(tmp_path / "runs.db")
    monkeypatch.undo()
    time.tzset()


def write(writer, **runs):
    """Write runs by their ids, each a list of records."""
    for run_id, records in runs.items():
        journal = writer.journal(run_id)
        for record in records:
            journal.write(record)
        assert asyncio.run(journal.committed()) is None


def keep(**runs):
    """Keep runs, and end the process that wrote them."""
    with closing(Writer(place(None))) as writer:
        write(writer, **runs)


def run_of(run_id, at=NOON, turns=1, status="answered", **changed):
    """Return the records of a run that is over."""
    worked = [record for turn in range(1, turns + 1) for record in turn_of(turn)]
    *said, last, told = [*begun(run_id), *worked, *ended(run_id)]
    said[0] = replace(opened(run_id, **changed), at=at)
    return [*said, replace(last, at=at + 60, outcome=outcome(run_id, status)), told]


@pytest.fixture
def three(store):
    """Keep three runs: one that is over, a younger one of another specialist, and the youngest, which was cut off."""
    keep(
        run_a=run_of("run_a", NOON - 40 * DAY, turns=2),
        run_b=run_of("run_b", NOON - DAY, status="partial", specialist="reader", question="Why\n is it?"),
        run_c=[replace(opened("run_c"), at=NOON), *begun("run_c")[1:]],
    )
    return store


def call(*arguments, **options):
    """Run the command in this process."""
    return CliRunner().invoke(app, arguments, catch_exceptions=False, **options)


def listed(*arguments):
    """Return the ids that `runs --json` lists."""
    return [run["run_id"] for run in json.loads(call("runs", *arguments, "--json").stdout)["runs"]]


def on_terminal(*arguments, columns=120, typed=b"", **environment):
    """Run the command as a program on a terminal; return what it wrote there, and its exit code."""
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns)} | environment
    command = [sys.executable, "-W", "error", "-c", MAIN, *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # the program has closed its end
                break
            written += part
    os.close(ours)
    return written.decode().replace("\r\n", "\n"), process.returncode


def test_runs_are_listed_newest_first(three):
    """A row each on stdout; how many and where on stderr."""
    result = call("runs")
    rows = [re.split(" {2,}", line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert rows == [
        ["RUN", "SPECIALIST", "STATUS", "CALLS", "COST", "STARTED", "QUESTION"],
        ["run_c", "looker", "interrupted", "0", "$0.00", started(NOON), "What is known?"],
        ["run_b", "reader", "partial", "1", "$0.25", started(NOON - DAY), "Why is it?"],
        ["run_a", "looker", "answered", "2", "$0.50", started(NOON - 40 * DAY), "What is known?"],
    ]
    assert re.search(rf": 3 runs · [\d.]+ kB in {three}$", result.stderr.strip())


def started(at):
    """Return a time as it is listed, on a clock in Kolkata."""
    form = "%d %b %H:%M" if time.gmtime().tm_year == time.gmtime(at).tm_year else "%d %b %Y"
    return time.strftime(form, time.gmtime(at + 5.5 * 3_600))


def test_runs_as_json(three):
    """Every field, times in UTC."""
    told = json.loads(call("runs", "--json").stdout)
    assert (told["store"], [run["run_id"] for run in told["runs"]]) == (three, ["run_c", "run_b", "run_a"])
    assert told["size_bytes"] > 1_000
    assert told["runs"][1] == {
        "run_id": "run_b",
        "parent_id": None,
        "specialist": "reader",
        "model": "scripted",
        "question": "Why\n is it?",
        "status": "partial",
        "started_at": "2026-11-21T12:00:00.000Z",
        "ended_at": "2026-11-21T12:01:00.000Z",
        "tool_calls": 1,
        "cost_usd": 0.25,
    }
    assert told["runs"][0]["ended_at"] is None


def test_runs_are_narrowed(three):
    """By ids and their beginnings, `last`, specialist, status, age and number."""
    assert listed("run_a", "run_b") == ["run_b", "run_a"]
    assert listed("run") == ["run_c", "run_b", "run_a"]
    assert listed("last") == ["run_c"]
    assert listed("--specialist", "looker") == ["run_c", "run_a"]
    assert listed("--status", "interrupted") == ["run_c"]
    assert listed("--limit", "2") == ["run_c", "run_b"]
    assert listed("--limit", "none", "--status", "partial") == ["run_b"]
    assert listed("run_a", "--specialist", "reader") == []


def test_runs_are_chosen_by_their_age(store):
    """In minutes, hours, days and weeks since they ended."""
    now = time.time()
    keep(**{f"d{days}": run_of(f"d{days}", now - days * DAY) for days in (1, 3, 20)})
    assert listed("--older-than", "2d") == listed("--older-than", "48H") == ["d3", "d20"]
    assert listed("--older-than", "2 w") == ["d20"]
    assert listed("--older-than", "0m") == ["d1", "d3", "d20"]
    # It began long enough ago, and ended a minute later.
    assert listed("--older-than", "1440m") == ["d3", "d20"]


def test_people_are_shown_twenty_runs_unless_they_ask_for_more(store):
    """What was left out is told; a program gets all."""
    keep(**{f"r{number}": run_of(f"r{number}", NOON + number, turns=0) for number in range(22)})
    result = call("runs")
    assert len(result.stdout.splitlines()) == 21
    assert "the newest 20 runs" in result.stderr
    assert len(call("runs", "--limit", "none").stdout.splitlines()) == 23
    for all_of_them in (call("runs", "--all"), call("runs", "--limit", "22")):
        assert len(all_of_them.stdout.splitlines()) == 23
        assert "newest" not in all_of_them.stderr
    assert len(listed()) == 22


def test_a_price_that_is_unknown_is_told_so(three):
    """It is no zero."""
    change(f"sqlite:///{three}", "update runs set cost_usd = null where run_id = 'run_a'")
    assert "  unknown  " in call("runs", "run_a").stdout
    assert json.loads(call("runs", "run_a", "--json").stdout)["runs"][0]["cost_usd"] is None


def test_no_store_yet_is_an_empty_list(store):
    """Said on stderr; nothing is made. A run in it is not found."""
    result = call("runs", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"runs": [], "store": store, "size_bytes": 0})
    assert f"there is no store at {store} yet" in result.stderr
    result = call("runs", "--all", "--delete", "--json")
    assert (result.exit_code, json.loads(result.stdout)["deleted"]) == (0, [])
    result = call("runs")
    assert (result.exit_code, result.stdout) == (0, "")
    for command in ("transcript", "report"):
        result = call(command, "last")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"there is no store at {store} yet" in result.stderr
    assert not os.path.lexists(store)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["runs", "nope"], "no run nope is kept in {}; the newest is run_c"),
        (["transcript", "run_d"], "no run run_d is kept in {}; did you mean "),
        (["transcript", "run_"], "3 runs begin with run_: run_c, run_b, run_a; give more of the id"),
        (["report", "nope"], "no run nope is kept in {}; the newest is run_c"),
        (["runs", "--delete"], "--delete wants to know what: RUN..., "),
        (["runs", "--delete", "--all"], "--yes is needed where nobody can be asked; nothing was deleted"),
        (["runs", "--delete", "nope", "--yes"], "no run nope is kept in {}; the newest is run_c"),
        (["runs", "--store", "none"], "name a store with --store"),
        (["runs", "--store", "mysql://x"], "mysql://x names no store"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_one_line(three, arguments, told):
    """With exit code 2, and nothing is deleted."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told.format(three) in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert len(listed()) == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--older-than", "soon"], "'soon' is no age; write one like 12h, 30d or 8w"),
        (["--limit", "-1"], "'-1' is no number of runs; write one, or none"),
        (["--status", "done"], "'done' is none of running, interrupted, answered"),
    ],
)
def test_wrong_values_of_flags_are_told(three, arguments, told):
    """And the flag is named."""
    result = call("runs", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in " ".join(result.stderr.replace("│", " ").split())
    assert f"'{arguments[0]}'" in result.stderr


def test_deleting_takes_what_is_chosen(three):
    """As JSON what was deleted; of that nothing is listed any more."""
    told = json.loads(call("runs", "--specialist", "looker", "--delete", "--yes", "--json").stdout)
    assert (told["deleted"], [run["run_id"] for run in told["runs"]]) == (["run_c", "run_a"], ["run_c", "run_a"])
    assert listed() == ["run_b"]
    result = call("runs", "last", "--delete", "-y")
    assert result.stdout.splitlines()[1].startswith("run_b  reader")
    assert "1 run deleted" in result.stderr
    assert listed() == []
    result = call("runs", "--all", "--delete", "-y")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 runs deleted" in result.stderr


@pytest.mark.exhaustive
def test_deleting_asks_on_a_terminal(three):
    """Everything but yes is no."""
    for typed in (b"n\n", b"\n"):
        shown, code = on_terminal("runs", "--delete", "run_a", typed=typed)
        assert (code, "Delete 1 run for good? [y/N]" in shown, "nothing was deleted" in shown) == (0, True, True)
    assert len(listed()) == 3
    shown, code = on_terminal("runs", "--delete", "run_a", typed=b"y\n")
    assert (code, "1 run deleted" in shown) == (0, True)
    assert listed() == ["run_c", "run_b"]


def test_what_is_at_work_stays(three):
    """Chosen with others it is passed over; named by its id it is refused, and with it the rest."""
    with closing(Writer(place(None))) as writer:
        write(writer, alive=begun("alive"))
        refused = call("runs", "--delete", "-y", "run_a", "alive")
        assert refused.exit_code == 2
        assert "alive is still at work" in refused.stderr
        assert len(listed()) == 4
        result = call("runs", "--delete", "-y", "--all")
        assert "1 run still at work: that stays" in result.stderr
        assert listed() == ["alive"]


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


def test_a_transcript_for_people(three):
    """Each call on a line, a result below it."""
    result = call("transcript", "run_a")
    assert (result.exit_code, result.stdout, result.stderr) == (0, TOLD, "")


def test_a_transcript_as_json(three):
    """The run, and the rows in order."""
    told = json.loads(call("transcript", "run_a", "--json").stdout)
    assert {key: told[key] for key in ("run_id", "specialist", "status")} == {
        "run_id": "run_a", "specialist": "looker", "status": "answered",
    }  # fmt: skip
    pair = ["tool_call", "tool_result"]
    assert [row["kind"] for row in told["messages"]] == ["user", *pair, *pair]


def test_a_transcript_marks_errors_and_keeps_lines(store):
    """Two calls of one turn stand together, their results by their numbers."""
    blocks = [{"type": "tool_use", "id": f"c{at}", "name": "look", "input": {}} for at in (1, 2)]
    results = [ToolResult("c2", "second", is_error=True), ToolResult("c1", "first\n\n  line"), ToolResult("x", "lost")]
    said = [Message.user("Q"), Message("assistant", tuple(blocks)), Message.results(results)]
    keep(run_a=[opened("run_a"), stood(1, 0, said)])
    told = call("transcript", "run_a").stdout.split("\n\n", 2)[2]
    assert told == (
        "call 1  look {}\ncall 2  look {}\n\nresult 2, an error\n  second\n\nresult 1\n  first\n\n    line\n\n"
        "result\n  lost\n"
    )


@pytest.mark.exhaustive
def test_nothing_reaches_a_terminal_raw(store):
    """Neither from a question nor from a result, an id or a name; our own colours do."""
    evil = "\x1b[31mred\x07\u202e"
    block = {"type": "tool_use", "id": "c1", "name": evil, "input": {evil: evil}}
    said = [Message.user(evil), Message("assistant", (block,)), Message.results([ToolResult("c1", evil)])]
    keep(run_a=[opened("run_a", question=evil, specialist=evil), stood(1, 0, said), *ended("run_a")])
    for arguments in (["runs"], ["transcript", "run_a"]):
        shown, code = on_terminal(*arguments)
        assert code == 0
        assert "\ufffd[31mred\ufffd\ufffd" in shown
        assert ("\x1b[31m" in shown, "\x07" in shown, "\u202e" in shown) == (False, False, False)
        assert "\x1b[" in shown
    plain, _ = on_terminal("transcript", "run_a", NO_COLOR="1")
    assert "\x1b" not in plain


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_listing_fits_its_terminal(three, columns):
    """A narrow one has the question on a line of its own, with the specialist before it."""
    keep(
        **{
            "20261122-112233-abcdef": run_of(
                "20261122-112233-abcdef", NOON + 1, question="Why? " * 99, specialist="a-specialist-of-a-very-long-name"
            )
        }
    )
    shown, _ = on_terminal("runs", columns=columns)
    lines = ESCAPES.sub("", shown).splitlines()[:-1]
    assert max(map(len, lines)) <= max(columns, 76)
    together = [line for line in lines if line.startswith("20261122-112233-abcdef")]
    assert len(together) == 1
    assert ("Why?" in together[0]) == (columns == 120)
    assert any(line.startswith("  a-specialist-of-a-very-long-name: Why?") for line in lines) == (columns < 120)


def test_a_report_is_written(three, tmp_path):
    """Into the folder where one is, under the run's id, and its path is printed; never over another file."""
    result = call("report", "run_a")
    assert (result.exit_code, result.stdout) == (0, "report-run_a.html\n")
    page = (tmp_path / "here" / "report-run_a.html").read_text("utf-8")
    assert "What is known?" in page
    again = call("report", "run_a")
    assert (again.exit_code, again.stdout) == (2, "")
    assert "report-run_a.html is there already; --force writes over it" in again.stderr
    assert call("report", "last", "--out", "report-run_a.html", "--force").stdout == "report-run_a.html\n"
    assert "run_c" in (tmp_path / "here" / "report-run_a.html").read_text("utf-8")
    printed = call("report", "run_a", "--out", "-")
    assert (printed.stdout, printed.exit_code) == (page, 0)
    nowhere = call("report", "run_a", "--out", "no/such/folder.html")
    assert (nowhere.exit_code, nowhere.stdout) == (2, "")
    assert "no/such/folder.html" in nowhere.stderr


def test_a_report_as_json(three, tmp_path):
    """What the page is made of; no file is written."""
    told = json.loads(call("report", "run_a", "--json").stdout)
    assert (told["run_id"], told["question"]) == ("run_a", "What is known?")
    assert [*(tmp_path / "here").iterdir()] == []


@pytest.mark.exhaustive
def test_shells_complete_ids(three):
    """With the store that is named on the same line; where there is none, with nothing."""

    def offered(*words):
        line = {"_SPECIALISTS_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": "2"}
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", MAIN],
            env=os.environ | line,
            capture_output=True,
            text=True,
            check=False,
        )

    done = offered("specialists", "transcript", "run_")
    assert (done.stdout.split(), done.stderr) == (["run_c", "run_b", "run_a"], "")
    file_of(place(None).url).unlink()
    done = offered("specialists", "transcript", "run_")
    assert (done.stdout.split(), done.stderr) == ([], "")


def test_postgresql_is_read_alike(store_url, store):
    """By its URL, on both databases."""
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


@pytest.mark.parametrize("command", [["runs", "--delete", "--yes"], ["resume"], ["transcript"], ["report"]])
@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_id_names_no_run(three, command, empty):
    """Every id begins with it: an unset variable of a shell script must not delete all runs."""
    before = listed()
    said = call(*command, empty)
    assert (said.exit_code, "an empty id names no run" in said.stderr) == (2, True)
    assert listed() == before


def test_what_is_deleted_is_named_without_doubt(three):
    """The beginning of several ids deletes none of them."""
    before = listed()
    said = call("runs", "--delete", "--yes", "run")
    assert (said.exit_code, "runs begin with run" in said.stderr) == (2, True)
    assert listed() == before
