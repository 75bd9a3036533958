"""Resumptions that `specialists resume` refuses, and those that --force allows."""

from pathlib import Path

import pytest

from tests.cli.resumed_commands import GREP, MODEL
from tests.cli.specialists_command import call as manage
from tests.wire.simulator.replies import answers


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
