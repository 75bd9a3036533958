"""The last part of `specialists show`: what a run gets."""

import json
import re
import sys

import pytest

from tests.cli.specialists_command import call

DEFAULT = ["glob", "grep", "ls", "read", "respond", "search"]
ONE_MORE = sorted([*DEFAULT, "get_tool_response", "lookup"])


def rows(*arguments):
    """Return the texts of the block by label."""
    found, label = {}, ""
    for line in call("show", *arguments).stdout.split("\nWhat a run gets:\n")[1].splitlines():
        label = line[:15].strip() or label
        found.setdefault(label, []).append(line[15:])
    return found


def effective(*arguments):
    """Return the object of `show --json`."""
    return json.loads(call("show", *arguments, "--json").stdout)["effective"]


def test_tools_and_limits_are_those_of_a_run(write):
    """The block lists the tools with `respond`, and each limit with its source; the JSON object has the same."""
    write("finder", "tool_calls_limit: 12", "time_limit: 90s", "cost_limit: 0.5")
    block, found = rows("finder"), effective("finder")
    assert block["tools"] == [", ".join(DEFAULT)]
    assert block["limits"][0].startswith(
        "tool_calls_limit 12 (line 4), cost_limit $0.50 (line 6), time_limit 90 s (line 5), parallel_tools_limit 4 ("
    )
    assert "turns_limit" in block["no limit"][0]
    assert found["tools"] == {"offered": DEFAULT, "dropped": []}
    assert found["limits"]["tool_calls_limit"] == {"value": 12, "source": "file", "line": 4, "path": None}
    assert found["limits"]["tool_result_limit"] == {"value": 20_000, "source": "default", "line": None, "path": None}
    assert found["limits"]["turns_limit"] == {"value": None, "source": "default", "line": None, "path": None}
    assert (found["cannot_run"], found["known_at_run_time"]) == ([], [])


def test_dropped_tools_have_a_reason_and_its_line(write):
    """Tools that are not listed, are disallowed, do not exist, or need agents are named with the key and its line."""
    write("finder", "tools: search, grep, Telescope, Task, respond", "disallowed_tools: grep")
    assert rows("finder")["not offered"] == [
        "grep: disallowed (disallowed_tools, line 5)",
        "glob, read, ls: not in the list (tools, line 4)",
        "Telescope: no such tool here (tools, line 4)",
        "Task: offered only with `agents` that can be called (tools, line 4)",
    ]
    found = effective("finder")["tools"]
    assert found["offered"] == ["respond", "search"]
    expected = {"name": "Telescope", "reason": "no such tool here", "key": "tools", "line": 4}
    assert expected in found["dropped"]


def test_the_model_has_its_source_and_price(write, monkeypatch):
    """Alias, id, source and price of the model are shown; an unknown price is named, and offline is free."""
    write("finder")
    assert rows("finder")["model"] == [
        "offline (neither ANTHROPIC_API_KEY nor ANTHROPIC_BASE_URL is set), free of charge"
    ]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    assert rows("finder")["model"] == [
        "sonnet, that is claude-sonnet-5-5 (ANTHROPIC_API_KEY is set), $2.00 in and $10.00 out per million tokens"
    ]
    monkeypatch.setenv("SPECIALIST_MODEL", "haiku")
    haiku = "haiku, that is claude-haiku-5-5 (SPECIALIST_MODEL), $0.10 in and $0.50 out per million tokens"
    assert rows("finder")["model"] == [f"{haiku}, more above 100,000 tokens of input"]
    write("finder", "model: claude-haiku-5-5")
    assert rows("finder")["model"][0].startswith("claude-haiku-5-5 (line 4), $0.10 in")
    assert effective("finder")["model"] == {
        "name": "claude-haiku-5-5",
        "id": "claude-haiku-5-5",
        "source": "line 4",
        "usd_per_million_tokens": {"input": 0.1, "output": 0.5},
        "higher_price_above_tokens": 100_000,
    }
    write("finder", "model: my-own-model")
    assert rows("finder")["model"] == ["my-own-model (line 4), price unknown"]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("lines", "reason", "offered"),
    [
        (["model: claude-sonet-9"], "finder.md:4:1: model: no model 'claude-sonet-9': did you mean ", DEFAULT),
        (["model: haiku"], "no credentials for haiku: set ANTHROPIC_API_KEY", DEFAULT),
        (["tools: Telescope"], "finder.md:4:1: tools: none of Telescope exists; available: search, ", None),
        (["model: openai:unheard-of"], "no credentials for openai:unheard-of: set OPENAI_API_KEY", DEFAULT),
        (["cost_limit: 1", "model: ollama:x"], "finder.md:4:1: cost_limit: the price of ollama:x is unknown", None),
        (["python_tools: [nowhere.tools:lookup]"], "finder.md:4:1: python_tools: nowhere.tools:lookup: ", ONE_MORE),
    ],
)
def test_reasons_not_to_run_come_first(write, lines, reason, offered):
    """What a run would refuse comes first, and the exit code is 0; the tools follow unless they are unknown."""
    write("finder", *lines)
    result = call("show", "finder")
    first = result.stdout.split("\nWhat a run gets:\n")[1].splitlines()[0]
    assert result.exit_code == 0
    assert first.startswith("  cannot run   ")
    assert any(reason in row for row in rows("finder")["cannot run"])
    assert effective("finder")["tools"]["offered"] == offered


def test_nothing_is_imported_or_started(write, notes):
    """Functions are not imported and servers not started; the block says what only a run can tell."""
    (notes / "tools.py").write_text("import pathlib\npathlib.Path('imported').touch()\ndef owls(): ...\n")
    command = [sys.executable, "-c", "import pathlib; pathlib.Path('started').touch()"]
    servers = json.dumps([{"tickets": {"command": command[0], "args": command[1:]}}])
    write("finder", "python_tools: [tools:owls]", f"mcp_servers: {servers}", "disallowed_tools: ls")
    found = effective("finder")
    assert found["known_at_run_time"] == [
        "the names of tools:owls, which are imported then and may set others",
        "the tools of the MCP servers tickets, with which get_tool_response is offered",
    ]
    (reason,) = found["cannot_run"]
    assert reason.endswith("must be allowed once with --trust")
    assert len(found["known_at_run_time"]) == len(rows("finder")["at run time"])
    assert sorted(path.name for path in notes.iterdir()) == [".git", "notes", "specialists", "tools.py"]


def test_past_runs_of_this_file_are_summed_up(write, ask, store, notes):
    """Medians of this file's runs are shown by model; runs of another file of the same name do not count."""
    write("finder")
    for _ in range(3):
        assert ask()[0] == 0
    (text,) = rows("finder")["past runs"]
    assert re.fullmatch(r"3 runs with offline; median \d+ tool calls, [\d.e-]+ s, \$0\.00", text)
    past = effective("finder")["past_runs"]
    assert (past["runs"], past["note"]) == (3, None)
    (medians,) = past["medians"]
    assert (medians["model"], medians["runs"], medians["cost_usd"]) == ("offline", 3, 0)
    assert medians["tool_calls"] > 0 < medians["seconds"]
    (notes / "specialists/finder.md").rename(notes / "specialists/finder_2.md")
    assert rows("finder")["past runs"] == [f"none with an answer in {store}"]
    assert effective("finder")["past_runs"]["runs"] == 0


def test_a_store_is_neither_made_nor_required(write, store):
    """A missing store is not created; a damaged one, or one that is not a store, does not break the command."""
    write("finder")
    assert rows("finder")["past runs"][0].startswith("none: ")
    assert not store.exists()
    store.write_bytes(b"no database" * 100)
    assert rows("finder")["past runs"][0].startswith("not known: ")
    assert rows("finder", "--store", "mysql://host")["past runs"][0].startswith("not known: mysql://host")
    assert rows("finder", "--store", "none")["past runs"] == ["none: runs are not stored"]
    assert store.read_bytes() == b"no database" * 100


def test_a_preset_changes_the_block(write):
    """The limits are those with the preset of the flag."""
    write("finder")
    limits = effective("finder", "--preset", "finalize")["limits"]
    assert limits["parallel_tools_limit"] == {"value": 1, "source": "flag", "line": None, "path": None}
    assert limits["summarize_at"]["value"] is None, "offline nothing is summarized"
