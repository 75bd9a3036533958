"""The option --output: the answer in a file, written atomically or not at all, and refused before any request."""

import json
import stat

import pytest
from typer.testing import CliRunner

from run_specialist.cli import console, manage
from tests.wire.simulator.replies import answers


@pytest.fixture
def put(write, call):
    """Return a function that asks offline and writes to a file; returns exit code, stdout and stderr."""
    write("finder")

    def ask(path, *flags):
        result = call("finder", "What do owls eat?", "--model", "offline", "--output", str(path), *flags)
        return result.exit_code, result.stdout, result.stderr

    return ask


def test_the_file_gets_what_a_pipe_would_get(put, ask, notes):
    """The file holds the Markdown that standard output would hold, which is empty."""
    printed = ask()[1]
    code, out, _ = put("answer.md")
    assert (code, out, (notes / "answer.md").read_text()) == (0, "", printed)
    assert "mice" in (notes / "answer.md").read_text()
    assert stat.S_IMODE((notes / "answer.md").stat().st_mode) == 0o666 & ~0o022


def test_the_file_gets_the_outcome_with_json(put, notes):
    """With --json the file holds the outcome in UTF-8."""
    (notes / "notes" / "owls.md").write_text("# Owls\n\nOwls eat mice in Škofja Loka.\n", encoding="utf-8")
    assert put("answer.json", "--json")[:2] == (0, "")
    text = (notes / "answer.json").read_text(encoding="utf-8")
    assert json.loads(text)["status"] == "answered"
    assert "Škofja" in text


def test_an_existing_file_keeps_its_permissions_and_its_link(put, notes):
    """The target of a symlink is replaced, with its permissions; no other file is left in the folder."""
    (notes / "old.md").write_text("old")
    (notes / "old.md").chmod(0o640)
    (notes / "link.md").symlink_to("old.md")
    before = set(notes.iterdir())
    assert put("link.md")[0] == 0
    assert "mice" in (notes / "old.md").read_text()
    assert stat.S_IMODE((notes / "old.md").stat().st_mode) == 0o640
    assert ((notes / "link.md").is_symlink(), set(notes.iterdir())) == (True, before)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("notes", "it is a folder; name a file in it"),
        ("none/answer.md", "does not exist; create it first"),
        ("notes/owls.md/answer.md", "is not a folder"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_wrong_place_is_refused_before_the_run(put, path, told, monkeypatch):
    """No run is prepared, and one line says what is wrong."""
    from run_specialist.api.runner import Runner

    monkeypatch.setattr(Runner, "prepare", None)
    code, out, error = put(path)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert told in error


def test_a_place_without_permission_is_refused_before_the_run(put, notes, monkeypatch):
    """A read-only file, and a folder that cannot be written to, are refused, also for root, whom modes do not stop."""
    from run_specialist.api.runner import Runner

    monkeypatch.setattr(Runner, "prepare", None)
    (notes / "old.md").write_text("old")
    monkeypatch.setattr(console.os, "access", lambda *_: False)
    assert "old.md: the file is read-only" in put("old.md")[2]

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(console.tempfile, "TemporaryFile", refuse)
    assert "Permission denied" in put("new.md")[2]
    assert ((notes / "old.md").read_text(), (notes / "new.md").exists()) == ("old", False)


def test_an_answer_that_cannot_be_written_is_printed(put, notes, monkeypatch):
    """If the disk is full at the end, the answer is printed, the old file stays, and the exit code is 2."""
    (notes / "answer.md").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(console, "temporary_file", full)
    code, out, error = put("answer.md")
    assert (code, "mice" in out, (notes / "answer.md").read_text()) == (2, True, "old")
    assert "No space left on device; the answer was printed instead" in error


def test_a_run_without_an_answer_leaves_the_file_unchanged(write, call, api, notes):
    """If nothing was gathered, an older answer is kept."""
    write("finder")
    (notes / "answer.md").write_text("old")
    api([answers(""), answers("")])
    result = call("finder", "What do owls eat?", "--output", "answer.md")
    assert (result.exit_code, (notes / "answer.md").read_text()) == (4, "old")


def test_resume_writes_to_a_file_too(write, call, store, notes):
    """`specialists resume --output` writes the answer of the resumed run, and takes its question in words."""
    write("finder", "tool_calls_limit: 1")
    assert call("finder", "What do owls eat?", "--model", "offline").exit_code == 0
    words = ["resume", "last", "--tool-calls-limit", "9", "what", "do", "toads", "do?", "-o", "answer.md"]
    result = CliRunner().invoke(manage.app, words, catch_exceptions=False)
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


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("words", RESULTS, ids=" ".join)
def test_p6_results_never_leave_the_project_through_its_links(put, call, store, notes, outside, words):
    """Each result file behind a link of the project is refused with one line, and nothing is written there."""
    (notes / "specialists" / "finder.evals.yaml").write_text("cases: [{name: a, inputs: 'What?'}]\n")
    (notes / "questions.txt").write_text("What do owls eat?\n")
    if words[1] != "map":
        assert call("finder", "What do owls eat?", "--model", "offline").exit_code == 0
    program, *arguments = words
    if program == "run-specialist":
        result = call(*arguments, "--model", "offline")
    else:
        result = CliRunner().invoke(manage.app, arguments, catch_exceptions=False)
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
