"""`--require-model` and `offline: refuse`: exit 2 and one line, before anything is sent or stored."""

import json

import pytest

from tests.cli import specialists_command

HOW = "set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL, or name a model, e.g. sonnet, openai:ID or ollama:NAME"
NEEDED = f"a model is required, but no model is configured; {HOW}"
BY_VARIABLE = f"a model is required (SPECIALIST_REQUIRE_MODEL), but no model is configured; {HOW}"
JUDGES = "its answer is a judgement (offline: refuse) and needs a model, but"
QUESTION = "What do owls eat?"


@pytest.fixture
def refused(call, store):
    """Return a function that calls the command, which must refuse on one line, and returns the line."""

    def refuse(*arguments: str) -> str:
        result = call("finder", QUESTION, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert not store.exists()
        (line,) = result.stderr.splitlines()
        return line.partition(": ")[2]

    return refuse


def test_the_flag_refuses_to_answer_offline(write, refused):
    """With `--require-model` one line says how to get a model; nothing is stored, and no view or warning is printed."""
    write("finder")
    assert refused("--require-model") == f"finder: {NEEDED}"
    assert refused("--require-model", "--json") == f"finder: {NEEDED}"


@pytest.mark.parametrize("value", ["1", "true", "Yes", "on", "certainly"])
def test_the_variable_refuses_too(write, refused, monkeypatch, value):
    """SPECIALIST_REQUIRE_MODEL does the same and is named; a value that is not clear counts as yes."""
    write("finder")
    monkeypatch.setenv("SPECIALIST_REQUIRE_MODEL", value)
    assert refused() == f"finder: {BY_VARIABLE}"


@pytest.mark.parametrize(
    ("flags", "lines", "variable", "why"),
    [
        (["--model", "offline"], [], "", "the model of this run is offline"),
        ([], ["model: offline"], "", "the model in its file is offline"),
        ([], [], "offline", "SPECIALIST_MODEL is offline"),
        ([], ["model: inherit"], "offline", "SPECIALIST_MODEL is offline"),
    ],
)
def test_a_named_offline_is_refused_with_its_place(write, refused, monkeypatch, flags, lines, variable, why):
    """If `offline` was named, the line says where, and does not advise to set a key, which would not help."""
    write("finder", *lines)
    monkeypatch.setenv("SPECIALIST_MODEL", variable)
    said = refused("--require-model", *flags)
    assert said == f"finder: a model is required, but {why}; name another one, e.g. sonnet, openai:ID or ollama:NAME"


def test_a_judgement_is_not_made_offline(write, refused, notes):
    """A file with `offline: refuse` is refused with the line of the key, also without any flag."""
    path = write("finder", "offline: refuse")
    assert refused() == f"{path}:4:1: {JUDGES} no model is configured; {HOW}"
    assert "the model of this run is offline" in refused("--model", "offline")


def test_resume_refuses_too(write, call, store):
    """`resume --require-model` refuses a run that would go on offline, and leaves it as it was."""
    write("finder", "tool_calls_limit: 1")
    assert call("finder", QUESTION).exit_code == 0
    before = store.read_bytes()
    result = specialists_command.call("resume", "last", "--tool-calls-limit", "9", "--require-model")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a model is required, but the run is offline; name a model to resume it" in result.stderr
    assert store.read_bytes() == before
    assert specialists_command.call("resume", "last", "--tool-calls-limit", "9").exit_code == 0


def test_every_offline_outcome_says_that_no_model_judged(write, call, store):
    """The outcome and the `finished` event have a warning; on standard error the label alone says it, once."""
    write("finder")
    result = call("finder", QUESTION, "--json")
    (warning,) = json.loads(result.stdout)["warnings"]
    assert warning == "no model judged: this ran offline, by ranked search and verbatim quotes"
    assert [line for line in result.stderr.splitlines() if "offline" in line] == [
        line for line in result.stderr.splitlines() if "answered offline, without a language model" in line
    ]
    assert "warning:" not in result.stderr
    finished = json.loads(call("finder", QUESTION, "--events").stdout.splitlines()[-1])
    assert finished["outcome"]["warnings"] == [warning]
    report = json.loads(specialists_command.call("report", "last", "--json").stdout)
    assert report["answer"]["warnings"] == [warning]
