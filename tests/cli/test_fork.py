"""`specialists resume --at`, and how `runs`, `transcript` and `report` show a fork."""

import json

import pytest

from tests.cli.resumed_commands import GREP, MODEL
from tests.cli.specialists_command import call as manage
from tests.wire.simulator.replies import answers, calls

OWLS = calls("grep", {"pattern": "owls"})


@pytest.fixture
def source(store, api, write, call):
    """Return a function that runs a specialist with three calls, and returns the id of its run.

    It takes the replies that are left for forks.
    """

    def ask(*replies):
        write("finder", "tool_calls_limit: 3", "tools: grep")
        api([*GREP, answers("some"), *replies])
        return json.loads(call("finder", "What?", *MODEL, "--json").stdout)["run_id"]

    return ask


def test_f_6_another_model_is_priced_in_one_line_before_its_first_request(source):
    """The line names size and price before the outcome; it is silent with --quiet."""
    source = source(OWLS, *map(answers, ("more", "last")))
    forked = manage("resume", source, "--at", "2", "--model", "sonnet")
    assert (forked.exit_code, forked.stdout) == (0, "more\n")
    first, counts, *_ = forked.stderr.splitlines()
    assert f" claude-sonnet-5-5 has no prompt cache of {source}: it reads about " in first
    assert " tokens anew, price about $0.0" in first
    assert f"warning: the first 2 turns of {source} are copied: 2 tool calls and 2 turns count" in counts
    assert manage("resume", source, "--at", "0", "--model", "sonnet", "-q").stderr == ""


def test_f_4_every_command_shows_where_a_fork_is_from(source, tmp_path):
    """`runs`, `transcript` and `report` name the source, and the transcript says where the copied turns end."""
    source = source(OWLS, answers("more"))
    outcome = json.loads(manage("resume", source, "--at", "2", "--landing", "order", "--json").stdout)
    fork = outcome["run_id"]
    newest, first = json.loads(manage("runs", "--json").stdout)["runs"]
    assert (newest["run_id"], newest["forked_from"], newest["forked_at"]) == (fork, source, 2)
    assert (first["forked_from"], first["forked_at"]) == (None, None)
    assert f"(fork of {source} at turn 2)" in manage("runs").stdout
    lines = manage("transcript", fork).stdout.splitlines()
    assert lines[1] == f"forked from {source} after 2 turns"
    end = lines.index("the copied turns end here")
    assert [line.split("  ")[0] for line in lines[:end] if line.startswith("call")] == ["call 1", "call 2"]
    assert [line.split("  ")[0] for line in lines[end:] if line.startswith("call")] == ["call 3", "call 4"]
    printed = json.loads(manage("transcript", fork, "--json").stdout)
    assert printed["messages"][printed["copied_messages"]]["kind"] == "tool_call"
    page = tmp_path / "page.html"
    assert manage("report", source, "--out", str(page)).exit_code == 0
    assert "They part after turn 2" in page.read_text()
