"""Resumptions that `specialists resume` refuses, and those that --force allows."""

import json
from pathlib import Path

import pytest

from tests.cli.resumed_commands import GREP, MODEL, rows
from tests.cli.specialists_command import call as manage
from tests.wire.simulator.replies import answers, says, thinking, tool_use


@pytest.fixture
def landed(store, api, write, call):
    """A run that landed after one call, its simulator, and the file of its specialist."""
    path = write("finder", "tool_calls_limit: 1", "tools: grep")
    simulator = api([GREP[0], answers("some")])
    call("finder", "What?", *MODEL, "--quiet")
    return simulator, path


REFUSED = [
    (("last",), "landed at its limit; set a higher limit, or ask a follow-up question"),
    (("last", ""), "the question is empty"),
    (("last", "--tool-calls-limit", "0"), "has already used 1 tool call, so its total limit cannot be 0"),
    (("last", "--tool-calls-limit", "many"), "must be an integer"),
    (("nothing", "More?"), "there is no run nothing in"),
    (("2", "More?", "--store", "none"), "the store is `none`, so no runs are stored"),
    (("last", "More?", "--store", "absent.db"), "there is no store at"),
    (("last", "More?", "--store", "notes/owls.md"), "is not an SQLite database"),
    (("last", "More?", "--store", "mysql://u:secret@h/db"), "is not a valid store"),
    (("last", "More?", "--json", "--events"), "cannot be combined"),
]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=str)
def test_an_impossible_resumption_is_one_line_with_exit_code_2(landed, store, arguments, words):
    """The error is one line; no request is sent, the store is unchanged, and no secret is shown."""
    simulator, _ = landed
    before = store.read_bytes(), manage("transcript", "last", "--json").stdout
    result = manage("resume", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr
    assert len(simulator.requests) == 2
    assert (store.read_bytes(), manage("transcript", "last", "--json").stdout) == before
    assert not Path("absent.db").exists()


def test_a_changed_file_is_refused_without_force(landed, api):
    """The error names `--force`; when forced, the transcript notes that the instructions were changed."""
    _, path = landed
    path.write_text(path.read_text().replace("You find", "You seek"))
    refused = manage("resume", "last", "More?")
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert "finder.md was changed or deleted since" in refused.stderr
    assert "--force" in refused.stderr
    simulator = api([answers("more")])
    assert manage("resume", "last", "More?", "--force", "--quiet").stdout == "more\n"
    assert "Your instructions were changed since this run began" in json.dumps(rows())
    assert "You find notes." in simulator.requests[0].body["system"][0]["text"]


def test_another_model_is_refused_after_thinking_without_force(store, api, write, call):
    """With `--force` the thinking is left out and the transcript notes it; runs without thinking need no `--force`."""
    write("finder", "tools: grep")
    api([says(thinking("hm"), tool_use("grep", {"pattern": "mice"})), answers("some")])
    call("finder", "What?", *MODEL, "--quiet")
    refused = manage("resume", "last", "More?", "--model", "sonnet")
    assert refused.exit_code == 2
    assert "contains parts, such as thinking, that only claude-haiku-5-5 accepts" in refused.stderr
    simulator = api([answers("more"), answers("most")])
    forced = json.loads(manage("resume", "last", "More?", "--model", "sonnet", "--force", "--json").stdout)
    assert (forced["model"], forced["answer"]) == ("claude-sonnet-5-5", "more")
    assert "thinking was left out" in json.dumps(rows())
    assert "summary" not in [row["kind"] for row in rows()]
    assert "hm" not in json.dumps(simulator.requests[0].messages)
    # From now on the run uses the new model.
    assert manage("resume", "last", "And?", "--quiet").stdout == "most\n"
    assert simulator.requests[1].body["model"] == "claude-sonnet-5-5"
