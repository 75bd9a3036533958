"""The store for a run, tables and notes on standard error, and `show` compared with what a run really sends."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.cli.console import wrapped
from run_specialist.cli.tables import duration_words, short_path
from run_specialist.record.outcome import NO_MODEL
from tests.cli.specialists_command import call as manage
from tests.screen import run_on_terminal, screen
from tests.wire.simulator.models import Model
from tests.wire.simulator.replies import answers


def test_an_unwritable_default_store_causes_one_warning(notes, write, call, monkeypatch, tmp_path):
    """The run answers with exit code 0 and one warning, and no resume command is printed."""
    home = tmp_path / "home.txt"
    home.write_text("no folder")
    monkeypatch.delenv("SPECIALIST_STORE")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    write("finder", "tool_calls_limit: 1")
    result = call("finder", "What do owls eat?", "--model", "offline")
    assert result.exit_code == 0
    assert "Owls eat mice at night." in result.stdout
    (warning,) = [line for line in result.stderr.splitlines() if "warning" in line]
    assert "this run is not stored" in warning
    assert str(home) in warning
    assert "specialists resume" not in result.stderr
    assert "raise it with --tool-calls-limit for a longer run" in result.stderr
    told = json.loads(call("finder", "What do owls eat?", "--model", "offline", "--json").stdout)
    offline, unstored = told["warnings"]
    assert (offline, "this run is not stored" in unstored) == (NO_MODEL, True)


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_an_unusable_named_store_is_refused_before_any_request(notes, write, call, api, by, monkeypatch):
    """A file that is not a store is refused with one line and left unchanged, and no request is sent."""
    write("finder")
    simulator = api([])
    file = notes / "notes" / "owls.md"
    before = file.read_bytes()
    if by == "environment":
        monkeypatch.setenv("SPECIALIST_STORE", str(file))
    result = call("finder", "What?", "--model", "haiku", *(["--store", str(file)] if by == "flag" else []))
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert f"{file} is not an SQLite database" in result.stderr
    assert simulator.requests == []
    assert file.read_bytes() == before


def test_the_default_store_is_in_the_users_data_directory(notes, write, call, monkeypatch, tmp_path):
    """The folder and the file are accessible only to the user, and `resume` finds the run there."""
    monkeypatch.delenv("SPECIALIST_STORE")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    write("finder", "tool_calls_limit: 1")
    call("finder", "What do owls eat?", "--model", "offline", "--quiet")
    (file,) = tmp_path.rglob("*.db")
    assert file.is_relative_to(tmp_path / "home")
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0
    assert manage("resume", "last", "And toads?", "--quiet").exit_code == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (59.6, "1m 00s"), (200, "3m 20s"), (3_600, "1h 00m")],
)
def test_durations_and_paths_are_short(monkeypatch, seconds, words):
    """A duration has at most two units; only a path inside of the home folder begins with a tilde."""
    assert duration_words(seconds) == words
    monkeypatch.setenv("HOME", "/home/me")
    paths = ("/home/me", "/home/me/p", "/home/mel", "/x")
    assert [short_path(path) for path in paths] == ["~", "~/p", "/home/mel", "/x"]


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("columns", [40, 200])
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


FILES = {
    "default": (),
    "listed": ("tools: Read, Grep, WebSearch", "disallowed_tools: grep"),
    "none": ("tools: []",),
    "agents": ("agents: other",),
    "agents and a list": ("agents: other", "tools: Task, search"),
    "no delegate": ("agents: other", "disallowed_tools: delegate"),
    "summaries": ("summarize_at: 5000",),
    "functions": ("python_tools: [owl_tools:count, owl_tools:hoot]", "disallowed_tools: hoot"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FILES)
def test_the_tools_and_the_model_are_those_of_the_first_request(api, write, call, notes, monkeypatch, name):
    """The request that the API receives has the tools, the model, and the event `started` the limits of the block."""
    monkeypatch.setenv("XDG_DATA_HOME", str(notes.parent / "data"))
    (notes / "owl_tools.py").write_text("def count() -> int:\n    return 3\n\n\ndef hoot() -> str:\n    return 'uhu'\n")
    write("other")
    write("finder", *FILES[name], "model: haiku", "turns_limit: 7")
    simulator = api([answers("yes")])
    events = call("finder", "What?", "--events", "--trust").stdout.splitlines()
    shown = json.loads(manage("show", "finder", "--json").stdout)["effective"]
    started = json.loads(events[0])
    assert shown["tools"]["offered"] == simulator.requests[0].tool_names == started["tools"]
    assert shown["model"]["id"] == simulator.requests[0].body["model"] == started["model"]
    limits = {key: value["value"] for key, value in shown["limits"].items()}
    keys = {"tokens": "total_tokens_limit", "characters": "tool_chars_limit"}
    assert {kind: limits[keys.get(kind, f"{kind}_limit")] for kind in started["limits"]} == started["limits"]
    assert shown["cannot_run"] == []


@pytest.mark.parametrize("name", ["claude-sonet-9", "haikku", "openai:gtp-5"])
def test_a_misspelt_model_is_refused_before_anything_is_sent_or_stored(api, write, call, store, monkeypatch, name):
    """One line names the probable model, and its place in a file; a model that nobody knows yet is asked."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    path = write("finder", f"model: {name}")
    simulator = api([])
    for options, place in (((), f"{path}:4:1: model: "), (("--model", name), "")):
        result = call("finder", "What?", *options)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert f": {place}no model '{name}': did you mean " in result.stderr
    assert (simulator.requests, store.exists()) == ([], False)
    for model in ("claude-sonnet-9-1", "claude-epic-1", "my-model", "qwen3:8b"):
        simulator = api([answers("yes")], models=[Model(model)])
        assert call("finder", "What?", "--model", model).exit_code == 0
        assert simulator.requests[0].body["model"] == model
