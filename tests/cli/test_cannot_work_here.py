"""What cannot work in a project: shown by `list` and `show`, and named in the error with what works instead."""

import json

import pytest

from tests.cli.specialists_command import call as specialists

QUESTION = "How are payments retried?"


@pytest.fixture
def project(notes, monkeypatch):
    """A project of code without notes, where only the specialists of the package are found."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    (notes / "pay.py").write_text("def retry():\n    return 3\n")
    return notes


def listed() -> dict[str, dict]:
    """Return the specialists of `list --json` by name."""
    result = specialists("list", "--json")
    assert result.exit_code == 0
    return {one["name"]: one for one in json.loads(result.stdout)["specialists"]}


def test_list_says_what_cannot_work_here(project):
    """Specialists without files to read are blocked, with one line for the reason that they share."""
    result = specialists("list")
    rows = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines() if line and "cannot" not in line}
    assert rows["codebase-analyst"] == rows["fact-checker"] == "ok"
    assert rows["thoughts-analyzer"] == rows["thoughts-locator"] == "blocked"
    assert [line for line in result.stdout.splitlines() if "cannot work" in line] == [
        f"thoughts-analyzer, thoughts-locator cannot work here: no file under {project} matches thoughts/"
    ]
    assert result.exit_code == 0


def test_list_follows_the_folder(project):
    """In JSON the reason is a field beside the status of the file, and null as soon as there is a note."""
    before = listed()
    assert before["thoughts-analyzer"]["status"] == "ok"
    assert before["thoughts-analyzer"]["unavailable"] == f"no file under {project} matches thoughts/"
    assert before["codebase-analyst"]["unavailable"] is None
    (project / "thoughts").mkdir()
    assert listed()["thoughts-analyzer"]["unavailable"] is not None
    (project / "thoughts" / "a.md").write_text("A note.\n")
    assert {name: one["unavailable"] for name, one in listed().items() if one["unavailable"]} == {}


def test_the_model_can_be_the_reason(write, notes, monkeypatch):
    """A judgement without a model, missing credentials and a required model are reasons, each with what to do."""
    write("judge", "offline: refuse")
    write("priced", "model: opus")
    write("chatting", "model: openai:gpt-5")
    write("local", "model: ollama:qwen")
    write("finder")
    found = {name: one["unavailable"] for name, one in listed().items()}
    assert "its answer is a judgement (offline: refuse) and needs a model" in found["judge"]
    assert found["priced"].startswith("no credentials for opus: set ANTHROPIC_API_KEY")
    assert found["chatting"].startswith("no credentials for openai:gpt-5: set OPENAI_API_KEY")
    assert (found["local"], found["finder"]) == (None, None)
    monkeypatch.setenv("SPECIALIST_REQUIRE_MODEL", "1")
    assert "a model is required (SPECIALIST_REQUIRE_MODEL)" in listed()["finder"]["unavailable"]
    assert listed()["local"]["unavailable"] is None


def test_show_says_it_too(project):
    """`show` has the reason above the settings and in JSON, and nothing for a specialist that can work."""
    text, values = specialists("show", "thoughts-analyzer"), specialists("show", "thoughts-analyzer", "--json")
    reason = f"no file under {project} matches thoughts/"
    assert f"\ncannot work here: {reason}\n\nKEY " in text.stdout
    assert (text.exit_code, json.loads(values.stdout)["unavailable"]) == (0, reason)
    working = specialists("show", "codebase-analyst")
    assert "cannot work" not in working.stdout
    assert json.loads(specialists("show", "codebase-analyst", "--json").stdout)["unavailable"] is None


def test_the_error_names_the_specialist_that_works_here(project, call):
    """Asked anyway, it exits with 2, and the error names specialists that work."""
    result = call("thoughts-analyzer", QUESTION)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"no file under {project} matches thoughts/; set another folder" in result.stderr
    named = result.stderr.strip().rpartition("; ")[2]
    assert named.startswith("these work here: ")
    assert "thoughts-locator" not in named
