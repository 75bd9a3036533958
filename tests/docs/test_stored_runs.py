"""The documentation of stored runs: its commands are executed, its tables compared, its Python examples run."""

import json
import re
import shlex
import sqlite3
import stat
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from run_specialist import prompts
from run_specialist.api.runner import Runner
from run_specialist.budget import Budget, Kind
from run_specialist.cli import ask, manage
from run_specialist.loop.checkpoint import COMMIT_TIMEOUT
from run_specialist.store.location import VARIABLE, file_of, place
from run_specialist.store.reader import Store
from run_specialist.store.stored import ListedRun
from run_specialist.store.tables import metadata
from run_specialist.views.report import data
from run_specialist.views.tune import tune
from tests.docs.markdown import JSON, README, STORED, blocks, named, table
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.unit.store.finished_batches import keep_batch


@pytest.fixture
def project(own_notes, tmp_path, monkeypatch):
    """The copy of this project's notes and specialists, with an empty home and the default store."""
    monkeypatch.delenv(VARIABLE)
    for variable, folder in (("HOME", "home"), ("XDG_DATA_HOME", "home/.local/share")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    return own_notes


def call(line, code=0):
    """Run a command line from a document, check its exit code, and return its result."""
    name, *words = shlex.split(line, comments=True)
    app = ask.app if name == "run-specialist" else manage.app
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    assert told.exit_code == code, (line, told.stderr)
    return told


def story(text):
    """Return the commands of the console block that shows a run from its start to its report."""
    (told,) = [block for block in blocks(text, "console") if "specialists report" in block]
    return told.splitlines()


def newest():
    """Load the newest run from the default store."""
    with Store(place(None).url) as store:
        return store.load("last")


@pytest.mark.exhaustive
def test_the_documented_commands_work_in_order(project):
    """The documented commands work one after the other.

    They are run, runs, transcript, resume, ask more, report, index, tune, delete.
    """
    begin, runs, transcript, further, more, report, index, tuned, delete = story(STORED)
    (goes_on,) = re.findall(r"to resume: (.*)", call(begin).stderr)
    run_id = newest().run_id
    assert goes_on == further.replace("last", run_id)
    assert run_id in call(runs).stdout
    assert "call 4  " in call(transcript).stdout
    call(further)
    assert (newest().run_id, newest().tool_calls) == (run_id, 8)
    call(more)
    assert prompts.ASKS + shlex.split(more)[3] in call(transcript).stdout
    assert call(report).stdout == "run.html\n"
    assert "</html>" in (project / "run.html").read_text(encoding="utf-8")
    page = Path(call(index).stdout.strip())
    assert page.name == "report-index.html"
    assert (page.parent / f"report-{run_id}.html").is_file()
    assert "1 run" in call(tuned).stdout
    call(delete)
    assert newest().run_id == run_id, "it is not older than 30 days"


@pytest.mark.exhaustive
def test_the_readme_commands_work_after_its_session(project):
    """The README's commands after its session work one after the other, once the recorded command has run."""
    session = README.split("<!-- session", 1)[1].split("$ ", 1)[1].splitlines()[0]
    (goes_on,) = re.findall(r"to resume: (.*)", call(session).stderr)
    told = story(README)
    assert goes_on.replace(newest().run_id, "last") in [line.split("  ")[0] for line in told]
    for line in told:
        call(line)
    assert [*file_of(place(None).url).parent.glob("report-*.html")] != []


def test_the_json_fields_of_runs_reports_and_tunings_are_documented(project):
    """The tables have all fields of a run, of a report and of `tune`, and the text those next to the list of runs."""
    call(f"{story(STORED)[0]} -q")
    printed = json.loads(call("specialists runs --json").stdout)
    report, tuned = data(newest()), tune("any", []).as_json()
    assert json.loads(call("specialists report last --json").stdout).keys() == report.keys()
    assert sorted(field.name for field in fields(ListedRun)) == sorted(printed["runs"][0])
    for command, keys in (("runs", printed["runs"][0]), ("report", report), ("tune", tuned)):
        told = [name for row in table(JSON, f"## specialists {command}") for name in named(row[0])]
        assert sorted(told) == sorted(keys)
    text = JSON.split("## specialists runs")[1].split("\n| ")[0]
    assert [f"`{name}`" for name in printed if f"`{name}`" not in text] == []


def test_the_json_fields_of_batches_and_the_resumption_text_are_documented(project):
    """The table has all fields of a batch; the quoted text is the real one for 60 tool calls of which 30 are used."""
    keep_batch(place(None).url, {"a": "not run"}, "b1", place(None))
    printed = json.loads(call("specialists batches b1 --json").stdout)
    told = [name for row in table(JSON, "## specialists batches") for name in named(row[0])]
    assert sorted(told) == sorted(printed)
    page = json.loads(call("specialists report b1 --json").stdout)
    text = JSON.split("With the id of a batch")[1].split("\n\n")[0]
    assert printed.keys() - page.keys() == set()
    item = page["items"][0]
    assert [name for name in ("total", "items", *named(text)) if name not in item and name not in page] == []
    budget = Budget.of({Kind.TOOL_CALLS: 60}).spend(30)
    assert prompts.resumed(budget, [Kind.TOOL_CALLS], None, []) in [text.strip() for text in blocks(STORED, "text")]


async def test_the_kinds_of_a_transcript_are_documented(tmp_path):
    """The role and fields of each kind are those that a run produces; a summary is one more kind, with a text."""
    replies = [calls(("ls", {})), says("Nothing.")]
    (tmp_path / "looker.md").write_text("---\nname: looker\ndescription: Looks\ntools: ls\n---\nLook.\n")
    store = str(tmp_path / "runs.db")
    async with Runner(root=tmp_path, dir=tmp_path, provider=ScriptedProvider(replies), store=store) as runner:
        await runner.run("looker", "What is here?")
    printed = json.loads(call(f"specialists transcript last --json --store {store} --root {tmp_path}").stdout)
    left = {
        row["kind"]: [row["role"], *(key for key in row if key not in {"role", "kind"})] for row in printed["messages"]
    }
    told = {row[0].strip("`"): [row[1], *row[2].split(", ")] for row in table(JSON, "## specialists transcript")}
    assert told == {**left, "summary": ["assistant", "text"]}
    assert [key for key in printed if f"`{key}`" not in JSON.split("## specialists transcript")[1]] == []


@pytest.mark.exhaustive
def test_the_store_is_where_and_what_the_page_says(project):
    """Path and permissions are as documented, every table has its row, texts are bytes, and the query runs."""
    told = {row[0]: row[1] for row in table(STORED, "## Location")}
    call(f"{story(STORED)[0]} -q")
    path = file_of(place(None).url)
    assert f"`~/{path.relative_to(project.parent / 'home')}`" in told["Linux"]
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]
    assert {"(0600)", "(0700)"} <= set(re.findall(r"\(0[67]00\)", STORED))
    assert f"does not answer for {COMMIT_TIMEOUT:.0f} seconds" in STORED
    assert set(metadata.tables) <= set(named(STORED.split("\n## The tables\n")[1]))
    (query,) = blocks(STORED, "sql")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(query).fetchall() == [("thoughts-analyzer", "landed", 1, 4, 0.0)]
        (question,) = connection.execute("select question from runs").fetchone()
    assert question == b"\0" + newest().question.encode()
