"""`specialists show` agrees with what a run really sends."""

import json

import pytest

from tests.cli.specialists_command import call as specialists
from tests.wire.simulator.models import Model
from tests.wire.simulator.replies import answers

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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("name", FILES)
def test_the_tools_and_the_model_are_those_of_the_first_request(api, write, call, notes, monkeypatch, name):
    """The request that the API receives has the tools, the model, and the event `started` the limits of the block."""
    monkeypatch.setenv("XDG_DATA_HOME", str(notes.parent / "data"))
    (notes / "owl_tools.py").write_text("def count() -> int:\n    return 3\n\n\ndef hoot() -> str:\n    return 'uhu'\n")
    write("other")
    write("finder", *FILES[name], "model: haiku", "turns_limit: 7")
    simulator = api([answers("yes")])
    events = call("finder", "What?", "--events", "--trust").stdout.splitlines()
    shown = json.loads(specialists("show", "finder", "--json").stdout)["effective"]
    started = json.loads(events[0])
    assert shown["tools"]["offered"] == simulator.requests[0].tool_names == started["tools"]
    assert shown["model"]["id"] == simulator.requests[0].body["model"] == started["model"]
    limits = {key: value["value"] for key, value in shown["limits"].items()}
    keys = {"tokens": "total_tokens_limit", "characters": "tool_chars_limit"}
    assert {kind: limits[keys.get(kind, f"{kind}_limit")] for kind in started["limits"]} == started["limits"]
    assert shown["cannot_run"] == []


@pytest.mark.parametrize("options", [("--model", "claude-sonet-9"), ("--model", "sonet"), ("--model", "openai:gtp-5")])
def test_a_misspelt_model_is_refused_before_anything_is_sent_or_stored(api, write, call, store, monkeypatch, options):
    """One line names the probable model, exit code 2; nothing reaches the API, and nothing is stored."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    write("finder")
    simulator = api([])
    result = call("finder", "What?", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert f": no model '{options[1]}': did you mean " in line
    assert simulator.requests == []
    assert not store.exists()


def test_a_misspelt_model_in_a_file_is_refused_with_its_line(api, write, call):
    """The message begins with the place in the file; `--model` overrides the name there."""
    path = write("finder", "model: haikku")
    simulator = api([answers("yes")])
    result = call("finder", "What?")
    assert result.exit_code == 2
    said = result.stderr.partition(": ")[2]
    assert said == f"{path}:4:1: model: no model 'haikku': did you mean haiku?\n"
    assert simulator.requests == []
    assert call("finder", "What?", "--model", "haiku").exit_code == 0


def test_a_model_that_nobody_knows_yet_is_asked(api, write, call):
    """A new version, a new family and a server's own name reach the API as they are."""
    write("finder")
    for model in ("claude-sonnet-9-1", "claude-epic-1", "my-model", "qwen3:8b"):
        simulator = api([answers("yes")], models=[Model(model)])
        assert call("finder", "What?", "--model", model).exit_code == 0
        assert simulator.requests[0].body["model"] == model
