"""The commands `specialists list`, `check`, `new`, `show` and `schema`."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.cli.specialists_command import BAD, GOOD, MAIN, call, program
from tests.forked_program import ForkedProgram

ODD = "---\nname: odd\ndescription: d\nquux: 1\n---\nBody\n"


def test_list_and_check_show_every_file_and_problem(project: Path) -> None:
    """`list` has a row for each file, its dialect if one is foreign, and problems; `check` has these, and code 2."""
    (project / "specialists" / "bad.md").write_text(BAD)
    result = call("list")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].split() == ["NAME", "STATUS", "CALLS", "MODEL", "DESCRIPTION"]
    assert ["finder", "ok", "12", "Finds", "notes"] in [line.split() for line in lines]
    problems = [
        "specialists/bad.md:4:19: error: tool_calls_limit: must be an integer of at least 0, or none, got twelve",
        "specialists/bad.md:5:13: error: cost_limit: must be an amount in USD of at least 0, or none, got $5",
    ]
    assert problems[0] in lines
    checked = call("check")
    assert checked.exit_code == 2
    assert checked.stdout.splitlines() == [*problems, "2 files: 1 ok, 1 with errors (2 errors)"]
    assert "DIALECT" not in result.stdout
    path = project / ".codex" / "agents" / "other.toml"
    path.parent.mkdir(parents=True)
    path.write_text('description = "d"\ndeveloper_instructions = "Body"\n')
    rows = {line.split()[0]: line.split() for line in call("list").stdout.splitlines() if line}
    assert rows["NAME"][:3] == ["NAME", "STATUS", "DIALECT"]
    assert (rows["other"][:3], rows["finder"][:3]) == (["other", "ok", "codex"], ["finder", "ok", "12"])


def test_check_is_strict_takes_names_and_says_how_to_mend_yaml(project: Path) -> None:
    """`--strict` makes warnings errors; a missing skill is one; a name is found as for a run; remedies are named."""
    (project / "specialists" / "odd.md").write_text(ODD)
    assert call("check").exit_code == 0
    result = call("check", "--strict", "--json")
    assert result.exit_code == 2
    assert {one["name"]: one["status"] for one in json.loads(result.stdout)["files"]} == {
        "finder": "ok",
        "odd": "error",
    }
    (project / "specialists" / "skilled.md").write_text(GOOD.replace("---\n", "---\nskills: [nope]\n", 1))
    result = call("check", "specialists/skilled.md")
    assert result.exit_code == 2
    assert "skilled.md:2:1: error: skills: no skill named nope" in result.stderr + result.stdout
    (project / "specialists" / "odd.md").write_text("---\ndescription: Finds: notes\n---\nText.\n")
    (project / "specialists" / "tab.md").write_text("---\ndescription: d\ncountdown:\n\tfrom: 3\n---\nText.\n")
    odd, tab, missing = call("check", "odd", "finder"), call("check", "tab"), call("check", "odder")
    assert "odd.md:2:19: warning: is not valid YAML (mapping values are not allowed in" in odd.stdout
    assert 'put quotes around the value with ": " inside)' in odd.stdout
    assert odd.stdout.endswith("2 files: 1 ok, 1 with warnings (1 warning, 1 notice)\n")
    assert "line 4 begins with a tab; use spaces" in tab.stdout
    assert (missing.exit_code, "did you mean odd" in missing.stderr) == (2, True)


@pytest.mark.exhaustive
def test_help_lists_commands_and_shells_complete_names(project: Path) -> None:
    """`--help-all` has headings, an unknown command no traceback; completion offers specialists after `show`."""
    text = program("--help-all").stdout
    headings = ["Specialist files:", "Stored runs:", "Many questions:", "Several machines:", "Other programs:"]
    assert [line for line in text.splitlines() if line in headings] == headings
    wrong = program("chekc")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
    words = {"_SPECIALISTS_COMPLETE": "complete_bash", "COMP_WORDS": "specialists show fi", "COMP_CWORD": "2"}
    done = program(env=os.environ | words)
    assert done.stdout.split() == ["finder"]


def test_a_new_file_passes_a_strict_check(project: Path) -> None:
    """A file written by `new` passes a strict check, contains the given values, and has a prompt."""
    result = call(
        "new", "note-finder", "--description", "Finds notes: all #1", "--tools", "read, grep", "--model", "haiku"
    )
    assert (result.exit_code, result.stdout) == (0, "specialists/note-finder.md\n")
    assert call("check", "--strict", "specialists/note-finder.md").exit_code == 0
    shown = json.loads(call("show", "note-finder", "--json").stdout)
    assert (shown["description"], shown["tools"], shown["model"]) == ("Finds notes: all #1", ["read", "grep"], "haiku")
    assert shown["tool_calls_limit"] == 30
    assert "Finds notes: all #1." in shown["prompt"]
    keys = re.findall(r"^(?:# )?(\w+): ", (project / "specialists/note-finder.md").read_text(), re.MULTILINE)
    first = ["name", "description", "tools", "model", "tool_calls_limit"]
    assert keys == [*first, "paths", "evidence", "output_schema"]


@pytest.mark.parametrize("name", ["../up", "Upper", "a b", "", "a--b", "-a", "x" * 65, "a\nb", "ä"])
def test_new_refuses_bad_names(project: Path, name: str) -> None:
    """Only names that are safe on every file system and in every shell are accepted; a file is not overwritten."""
    result = call("new", "--description", "d", "--", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "invalid name" in result.stderr
    assert [path.name for path in (project / "specialists").iterdir()] == ["finder.md"]
    refused = call("new", "finder", "--description", "d")
    assert (refused.exit_code, "--force" in refused.stderr) == (2, True)
    assert (project / "specialists" / "finder.md").read_text() == GOOD
    assert call("new", "finder", "--description", "d", "--force").exit_code == 0
    assert (project / "specialists" / "finder.md").read_text() != GOOD


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--tool-calls-limit", "twelve", "must be an integer of at least 0, or none, got"),
        ("--tool-calls-limit", "-1", "must be an integer of at least 0, or none, got"),
        ("--tools", "Painter", "tools: not available here: Painter"),
        ("--paths", "../x", "paths: must be folders or globs under the root"),
        ("--description", " ", "description: "),
    ],
)
def test_new_refuses_values_that_fail_a_strict_check(project: Path, flag: str, value: str, said: str) -> None:
    """An invalid value is refused before anything is written."""
    flags = {"--description": "d"} | {flag: value}
    result = call("new", "fresh", *(part for pair in flags.items() for part in pair))
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (project / "specialists" / "fresh.md").exists()


def test_new_copies_a_specialist_or_writes_placeholders_that_check_reports(project: Path) -> None:
    """A copy differs in the name and what flags give; without a description placeholders are problems with a line."""
    text = GOOD.replace("---\n", "---\n# kept\n", 1)
    (project / "specialists" / "finder.md").write_text(text)
    assert call("new", "copy", "--from", "finder", "--tool-calls-limit", "24").stdout == "specialists/copy.md\n"
    copied = (project / "specialists" / "copy.md").read_text()
    assert copied == text.replace("name: finder", "name: copy").replace("tool_calls_limit: 12", "tool_calls_limit: 24")
    assert call("new", "none", "--from", "nobody").exit_code == 2
    result = call("new", "fresh")
    assert (result.exit_code, result.stdout) == (0, "specialists/fresh.md\n")
    assert "replace the lines with TODO" in result.stderr
    path = project / "specialists" / "fresh.md"
    lines = path.read_text().splitlines()
    checked = call("check", "specialists/fresh.md")
    where = [line.split(": ")[0] for line in checked.stdout.splitlines()[:-1]]
    described = next(number for number, line in enumerate(lines, 1) if line.startswith("description: "))
    purpose = next(number for number, line in enumerate(lines, 1) if line.startswith("TODO"))
    assert where == [f"specialists/fresh.md:{described}:14", f"specialists/fresh.md:{purpose}:1"]
    assert (checked.exit_code, call("check", "--strict", "specialists/fresh.md").exit_code) == (0, 2)
    filled = path.read_text().replace(lines[described - 1], "description: Finds notes.")
    path.write_text(filled.replace(lines[purpose - 1], "You find notes."))
    assert call("check", "--strict", "specialists/fresh.md").exit_code == 0


def asked(*answers: str, name: str = "asked") -> subprocess.CompletedProcess[str]:
    """Answer the questions of `new` on a terminal, and return the process."""
    ours, theirs = os.openpty()
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    done = program("new", name, stdin=theirs)
    os.close(theirs)
    os.close(ours)
    return done


@pytest.mark.exhaustive
def test_new_asks_on_a_terminal_and_again_after_a_wrong_answer(project: Path) -> None:
    """A wrong name is refused before any question; each wrong answer has its line; Enter accepts the default."""
    refused, taken = asked(name="My Finder"), asked(name="finder")
    assert [done.returncode for done in (refused, taken)] == [2, 2]
    assert ("for example my-finder" in refused.stderr, "already exists" in taken.stderr) == (True, True)
    assert "When" not in refused.stderr + taken.stderr
    done = asked("", "when asked", "twelve", "12", "raed", "read", "../x", "docs", "claude-x-9")
    assert done.returncode == 0
    assert done.stderr.count("When should it be used?") == 2
    assert "must be an integer of at least 0, or none, got twelve" in done.stderr
    assert "not available here: raed; did you mean read?" in done.stderr
    assert "must be folders or globs under the root" in done.stderr
    front = (project / "specialists" / "asked.md").read_text()
    assert "\ntools: read\npaths: docs\nmodel: claude-x-9\ntool_calls_limit: 12\n# evidence: " in front
    (project / "specialists" / "asked.md").unlink()
    done = asked("when asked", "", "", "", "")
    assert (done.returncode, done.stdout) == (0, "specialists/asked.md\n")
    front = (project / done.stdout.strip()).read_text().split("---\n")[1]
    assert front.startswith("name: asked\ndescription: when asked\ntool_calls_limit: 30\n# tools: ")


@pytest.mark.exhaustive
def test_new_leaves_nothing_behind_when_it_is_interrupted(project: Path) -> None:
    """Ctrl-C at a question: one line, exit code 130, and no file."""
    ours, theirs = os.openpty()
    os.write(ours, b"when asked\n12\n")
    command = [sys.executable, "-W", "error", "-c", MAIN, "new", "asked"]
    with ForkedProgram(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        seen = b""
        while b"Tools" not in seen:
            seen += asking.stderr.read1()
        asking.send_signal(signal.SIGINT)
        printed, told = asking.communicate(timeout=60)
    os.close(theirs)
    os.close(ours)
    assert (asking.returncode, printed.strip()) == (130, b"")
    assert told.endswith(b"specialists: interrupted\n")
    assert [path.name for path in (project / "specialists").iterdir()] == ["finder.md"]


def shown(*arguments: str) -> dict[str, list[str]]:
    """Return the rows of `show`: source and value by key."""
    rows = [
        re.split(" {2,}", line.strip())
        for line in call("show", *arguments, "--all").stdout.split("\n\n")[1].splitlines()
    ]
    assert rows[0] == ["KEY", "FROM", "VALUE"]
    return {key: rest for key, *rest in rows[1:]}


def test_show_prints_each_setting_with_its_source(project: Path) -> None:
    """Each setting shows its line or `default`, which only `--all` shows; problems and prompt follow."""
    (project / "specialists" / "finder.md").write_text(GOOD.replace("tools:", "quux: 1\ntools:"))
    result, rows = call("show", "finder"), shown("finder")
    assert result.exit_code == 0
    listed = [row.split()[:1] for row in result.stdout.partition("KEY")[2].partition("\n\n")[0].splitlines()[1:]]
    assert listed == [[key] for key, (source, *_) in rows.items() if source != "default"]
    assert f"{len(rows) - len(listed)} more keys have default values: --all" in result.stderr
    assert "default values" not in call("show", "finder", "--all").stderr
    assert result.stdout.startswith("finder  warning  specialists/finder.md\nFinds notes\n\n")
    assert rows["tool_calls_limit"] == ["line 6", "12"]
    assert rows["turns_limit"] == ["default", "none"]
    assert rows["paths"] == ["default", "all"]
    assert rows["tool_timeout"] == ["default", "60"]
    assert rows["countdown"] == ["default", "from: 0.5, style: remaining, warn_at: none"]
    assert list(rows)[:3] == ["tools", "tool_calls_limit", "paths"]
    assert "specialists/finder.md:4:1: warning: quux: unknown key" in result.stdout
    assert "\n\nYou find notes.\n\nWhat a run gets:\n" in result.stdout


SCHEMA, SETTINGS = Path(".vscode/specialist.schema.json"), Path(".vscode/settings.json")
ENTRY = {"./.vscode/specialist.schema.json": ["specialists/*.md", ".claude/agents/*.md"]}


def test_the_schema_is_written_and_the_settings_are_printed(project: Path, tmp_path: Path) -> None:
    """The user's settings are never touched, no link followed; the schema is draft 7, and accepts any other name."""
    outside = tmp_path / "outside"
    outside.mkdir()
    Path(".vscode").symlink_to(outside)
    result = call("schema", "--install")
    assert (result.exit_code, "leads outside the project" in result.stderr) == (2, True)
    assert not list(outside.iterdir())
    Path(".vscode").unlink()
    SCHEMA.parent.mkdir()
    SETTINGS.write_text('{ // mine\n  "a": 1,\n}\n')
    result = call("schema", "--install")
    assert result.exit_code == 0
    first, empty, advice, lines = result.stdout.split("\n", 3)
    assert (first, empty, advice) == (f"{SCHEMA}  written", "", f"Add these lines to {SETTINGS}:")
    assert json.loads(f"{{{lines}}}") == {"yaml.schemas": ENTRY}
    assert SETTINGS.read_text() == '{ // mine\n  "a": 1,\n}\n'
    assert sorted(path.name for path in SCHEMA.parent.iterdir()) == ["settings.json", "specialist.schema.json"]
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    draft_7 = jsonschema.Draft7Validator(schema)
    for front in (
        {"tools": ["read", "my_tool", "mcp__owls__*"], "model": "sonnet"},
        {"tools": "read, grep", "model": "ollama:qwen3", "disallowed_tools": ["ls"], "countdown": "none"},
    ):
        draft_7.validate(front)
    for front in ({"tools": [7]}, {"model": 5}, {"countdown": {"form": 1}}, {"tool_calls_limit": "twelve"}):
        assert not draft_7.is_valid(front)
    assert "grep" in schema["properties"]["tools"]["anyOf"][1]["items"]["anyOf"][0]["enum"]
    assert {"sonnet", "inherit", "offline"} <= set(schema["properties"]["model"]["anyOf"][0]["anyOf"][0]["enum"])
    assert json.loads(call("schema").stdout) | {"$schema": schema["$schema"]} == schema


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
    """The block lists the tools, each limit with its source, and dropped tools with the key; JSON has the same."""
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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
