"""The outputs of commands: unwritable ones, files of `--output`, and what programs read."""

import json
import os
import stat
import subprocess
import sys

import pytest

from run_specialist.api.runner import Runner
from run_specialist.cli import console
from run_specialist.providers import models
from run_specialist.record.messages import Usage
from tests.cli.specialists_command import call as specialists
from tests.contracts.tables import SHAPES
from tests.contracts.tables import faults as shape_faults
from tests.forked_program import run_forked
from tests.screen import MAINS
from tests.wire.simulator import faults, policies
from tests.wire.simulator.replies import answers, calls

COMMANDS = {
    "help": ["run-specialist", "--help"],
    "report": ["specialists", "report", "last", "--out", "-"],
    "answer": ["run-specialist", "finder", "What do owls eat?", "--model", "offline"],
    "events": ["run-specialist", "finder", "What do owls eat?", "--model", "offline", "--events"],
}


FULL = "/dev/full"
full = pytest.mark.skipif(not os.path.exists(FULL), reason="no /dev/full on this system")  # noqa: PTH110 - a device


@pytest.fixture
def run(call, write, store):
    """Return a function that runs a command in a project with a stored run, with redirections of its outputs."""
    write("finder")
    assert call("finder", "What do owls eat?", "--model", "offline").exit_code == 0

    def run_it(name, redirected):
        program, *arguments = COMMANDS[name]
        command = [sys.executable, "-W", "error", "-c", MAINS[program], *arguments]
        closed = tuple(number for number, how in ((1, ">&-"), (2, "2>&-")) if how in redirected.split())
        with open(FULL if FULL in redirected else os.devnull, "w") as device:  # noqa: PTH123 - a device
            return run_forked(
                command,
                text=True,
                closed=closed,
                stdout=device if redirected == ">/dev/full" else subprocess.PIPE,
                stderr=device if redirected == "2>/dev/full" else subprocess.PIPE,
            )

    return run_it


@pytest.mark.exhaustive(one_in=6)
@full
@pytest.mark.parametrize("name", COMMANDS)
def test_an_unwritable_stdout_is_exit_code_2(run, name):
    """It is one line on stderr with exit code 2; with an unwritable stderr stdout is complete and the exit code 0."""
    done = run(name, ">/dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device: " in done.stderr
    done = run(name, "2>/dev/full")
    assert (done.returncode, done.stdout.endswith(("\n", "</html>"))) == (0, True)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "redirected"),
    [("answer", ">&- 2>&-"), ("report", ">&- 2>&-"), ("answer", "2>&-"), ("report", ">&-")],
)
def test_a_closed_output_is_no_failure(run, name, redirected):
    """A closed output causes neither a failure nor a traceback."""
    done = run(name, redirected)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.fixture
def put(write, call):
    """Return a function that asks offline and writes to a file; returns exit code, stdout and stderr."""
    write("finder")

    def ask(path, *flags):
        result = call("finder", "What do owls eat?", "--model", "offline", "--output", str(path), *flags)
        return result.exit_code, result.stdout, result.stderr

    return ask


def test_the_file_gets_what_a_pipe_would_get(put, ask, notes):
    """The file holds what standard output would hold, which is empty: Markdown, or with --json the outcome in UTF-8."""
    (notes / "notes" / "owls.md").write_text("# Owls\n\nOwls eat mice in Škofja Loka.\n", encoding="utf-8")
    printed = ask()[1]
    code, out, _ = put("answer.md")
    assert (code, out, (notes / "answer.md").read_text()) == (0, "", printed)
    assert "mice" in (notes / "answer.md").read_text()
    assert stat.S_IMODE((notes / "answer.md").stat().st_mode) == 0o666 & ~0o022

    assert put("answer.json", "--json")[:2] == (0, "")
    text = (notes / "answer.json").read_text(encoding="utf-8")
    assert json.loads(text)["status"] == "answered"
    assert "Škofja" in text


def test_an_existing_file_keeps_its_permissions_its_link_and_on_a_full_disk_its_text(put, notes, monkeypatch):
    """The target of a link is replaced, and no other file left; with a full disk the answer is printed."""
    (notes / "old.md").write_text("old")
    (notes / "old.md").chmod(0o640)
    (notes / "link.md").symlink_to("old.md")
    before = set(notes.iterdir())
    assert put("link.md")[0] == 0
    assert "mice" in (notes / "old.md").read_text()
    assert stat.S_IMODE((notes / "old.md").stat().st_mode) == 0o640
    assert ((notes / "link.md").is_symlink(), set(notes.iterdir())) == (True, before)
    (notes / "answer.md").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(console, "temporary_file", full)
    code, out, error = put("answer.md")
    assert (code, "mice" in out, (notes / "answer.md").read_text()) == (2, True, "old")
    assert "No space left on device; the answer was printed instead" in error


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("notes", "it is a folder; name a file in it"),
        ("none/answer.md", "does not exist; create it first"),
        ("notes/owls.md/answer.md", "is not a folder"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_wrong_place_is_refused_before_the_run(put, notes, path, told, monkeypatch):
    """No run is prepared, and one line says what is wrong, also to root, whom permissions do not stop."""
    monkeypatch.setattr(Runner, "prepare", None)
    code, out, error = put(path)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert told in error
    (notes / "old.md").write_text("old")
    monkeypatch.setattr(console.os, "access", lambda *_: False)
    assert "old.md: the file is read-only" in put("old.md")[2]

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert "Permission denied" in put("new.md")[2]
    assert ((notes / "old.md").read_text(), (notes / "new.md").exists()) == ("old", False)


@pytest.mark.exhaustive
def test_a_run_without_an_answer_leaves_the_file_unchanged(write, call, api, notes, store):
    """If nothing was gathered, an older answer is kept; that of a resumed run, asked in words, replaces it."""
    write("finder", "tool_calls_limit: 1")
    (notes / "answer.md").write_text("old")
    api([answers(""), answers("")])
    result = call("finder", "What do owls eat?", "--output", "answer.md")
    assert (result.exit_code, (notes / "answer.md").read_text()) == (4, "old")
    assert call("finder", "What do owls eat?", "--model", "offline").exit_code == 0
    words = ["resume", "last", "--tool-calls-limit", "9", "what", "do", "toads", "do?", "-o", "answer.md"]
    result = specialists(*words)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Toads" in (notes / "answer.md").read_text()


@pytest.fixture
def outside(notes, tmp_path):
    """Files outside of the project, in it links to them and to the hooks of git; a run is stored."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    for name in ("out.md", "out.html", "out.jsonl", "out.json", "out.csv"):
        (notes / name).symlink_to(folder / "mine")
    (notes / "results").symlink_to(folder)
    (notes / ".git" / "hooks").mkdir()
    (notes / "hook.md").symlink_to(".git/hooks/pre-commit")
    return folder


RESULTS = [
    ("run-specialist", "finder", "What do owls eat?", "--output", "out.md"),
    ("run-specialist", "finder", "What do owls eat?", "--output", "hook.md"),
    ("run-specialist", "finder", "What do owls eat?", "--output", "results/new.md"),
    ("specialists", "map", "finder", "questions.txt", "--out", "out.jsonl"),
    ("specialists", "map", "finder", "questions.txt", "--out", "results/new.csv"),
    ("specialists", "report", "last", "--out", "out.html", "--force"),
    ("specialists", "report", "last", "--out", "results/new.html"),
    ("specialists", "report", "--index", "--out", "results/new.html"),
    ("specialists", "replay", "last", "--save", "out.json", "--force"),
    ("specialists", "eval", "finder", "--page", "out.html"),
    ("specialists", "eval", "finder", "--junit", "results/new.xml"),
    ("specialists", "eval", "finder", "--new", "--cases", "results/new.yaml"),
]


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("words", RESULTS, ids=" ".join)
def test_p6_results_never_leave_the_project_through_its_links(put, call, store, notes, outside, words):
    """Each result file behind a link of the project is refused with one line, and nothing is written there."""
    (notes / "specialists" / "finder.evals.yaml").write_text("cases: [{name: a, inputs: 'What?'}]\n")
    (notes / "questions.txt").write_text("What do owls eat?\n")
    if words[1] != "map":
        assert call("finder", "What do owls eat?", "--model", "offline").exit_code == 0
    program, *arguments = words
    result = call(*arguments, "--model", "offline") if program == "run-specialist" else specialists(*arguments)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].count("a link of the project leads to ") == 1
    assert [path.name for path in outside.iterdir()] == ["mine"]
    assert (outside / "mine").read_text() == "mine"
    assert not [*(notes / ".git" / "hooks").iterdir()]


def test_p6_a_path_outside_of_the_project_is_the_users_choice(put, outside, notes, monkeypatch):
    """A typed path outside is written, through links there too, also if the project is reached through a link."""
    (outside / "link.md").symlink_to("target.md")
    assert put(outside / "link.md")[0] == 0
    assert "mice" in (outside / "target.md").read_text()
    (outside / "project").symlink_to(notes)
    monkeypatch.chdir(outside / "project")
    assert put(outside / "project" / "answer.md")[0] == 0
    assert put("notes/answer.md")[0] == 0
    assert put(outside / "project" / "results" / "no.md")[0] == 2


LOOK = calls("search", {"query": "owls"})
QUOTES = [
    {"source": "notes/owls.md:3", "quote": "Owls eat mice at night."},
    {"source": "notes/owls.md:9", "quote": "Owls eat cheese."},
]


def test_json_has_usage_evidence_and_cost(api, write, call):
    """Usage is the sum over the requests, each quote is verified, and the cost follows the price list."""
    write("finder", "tool_calls_limit: 7")
    simulator = api([LOOK, calls("read", {"path": "nowhere.md"}), answers("yes", evidence=QUOTES, gaps=["toads"])])
    outcome = json.loads(call("finder", "What?", "--json").stdout)
    assert (outcome["specialist"], outcome["model"], outcome["status"]) == ("finder", "claude-sonnet-5-5", "answered")
    assert (outcome["answer"], outcome["gaps"], outcome["landing"]) == ("yes", ["toads"], None)
    assert outcome["evidence"] == [{**QUOTES[0], "verified": True}, {**QUOTES[1], "verified": False}]
    assert outcome["tool_calls"] == {"used": 2, "limit": 7, "failed": 1, "skipped": 0}
    assert outcome["limits"]["tool_calls"] == {"used": 2, "limit": 7}
    assert outcome["limits"]["turns"] == {"used": 3, "limit": None}
    billed = [
        Usage(**{kind: request.usage.get(kind, 0) for kind in outcome["usage"]}) for request in simulator.requests
    ]
    assert outcome["cost_usd"] == pytest.approx(
        sum(models.cost(usage, "claude-sonnet-5-5", "anthropic") for usage in billed)
    )
    assert outcome["cost_usd"] > 0
    assert outcome["limits"]["cost"] == {"used": outcome["cost_usd"], "limit": None}
    for kind, told in outcome["usage"].items():
        assert told == sum(request.usage.get(kind, 0) for request in simulator.requests), kind
    (warning,) = outcome["warnings"]
    assert "Owls eat cheese." in warning


def test_s3_7_events_are_one_json_object_a_line(api, write, call):
    """The first is `started`, the last `finished` with the outcome, of a failed run too; the landing is priced."""
    write("finder", "model: haiku", "tool_calls_limit: 2")
    simulator = api(policies.always_tool("search", calls_per_turn=3))
    result = call("finder", "What\nof it?", "--events")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [event["event"] for event in events][:2] == ["started", "request"]
    assert events[0]["question"] == "What\nof it?"
    assert events[-1]["event"] == "finished"
    assert list(shape_faults(events[-1]["outcome"], SHAPES["OUTCOME"])) == []
    assert sum(event["event"] in ("started", "finished") for event in events) == 2
    phases = [event["phase"] for event in events if event["event"] == "tool_call"]
    assert sorted(phases) == ["finished", "finished", "skipped", "started", "started"]
    assert [(e["reason"], e["how"]) for e in events if e["event"] == "landing"] == [("tool_calls", "force")]
    outcome, usage = events[-1]["outcome"], simulator.requests[-1].usage
    landing = outcome["landing"]
    assert (landing["reason"], landing["how"], landing["requests"]) == ("tool_calls", "force", 1)
    assert landing["usage"] == {kind: usage.get(kind, 0) for kind in landing["usage"]}
    assert 0 < landing["cost_usd"] < outcome["cost_usd"]
    assert outcome["tool_calls"] == {"used": 2, "limit": 2, "failed": 0, "skipped": 1}
    api([LOOK, faults.unauthorised()])
    result = call("finder", "What?", "--events")
    last = json.loads(result.stdout.splitlines()[-1])
    assert (result.exit_code, last["event"], last["outcome"]["status"]) == (3, "finished", "failed")
    assert "Owls eat mice at night." in last["outcome"]["answer"]


def test_an_answer_is_printed_in_any_encoding(api, write, call):
    """Characters outside the terminal's encoding are escaped; JSON with them can be parsed unchanged."""
    write("finder")
    api([answers("Käuzchen 🦉")] * 3)
    result = call("finder", "What?", charset="ascii")
    assert (result.exit_code, result.stdout) == (0, "K\\xe4uzchen \\U0001f989\n")
    outcome = json.loads(call("finder", "What?", "--json", charset="ascii").stdout)
    finished = json.loads(call("finder", "What?", "--events", charset="ascii").stdout.splitlines()[-1])
    assert outcome["answer"] == finished["outcome"]["answer"] == "Käuzchen 🦉"
