"""Untrusted text cannot move a terminal's cursor, change its title, fill its clipboard or reverse its text."""

import io
import json
import os

import pytest

from run_specialist.cli.console import print_json, printable
from tests.terminal import NAMEABLE, POISON, SENDABLE, harm, on_terminal
from tests.wire.simulator import faults
from tests.wire.simulator.replies import answers, refuses, says, tool_use

RUN, LOOK_AFTER = "run-specialist", "specialists"
QUOTED = json.dumps(SENDABLE)
"""SENDABLE as a YAML value."""


@pytest.fixture
def poisoned(notes, write, monkeypatch):
    """A project with control characters in file names, notes, front matter and prompts."""
    (notes / "notes" / f"owls{NAMEABLE}.md").write_text(f"# Owls {SENDABLE}\n\nOwls eat mice {SENDABLE} at night.\n")
    write("finder")
    write(
        "soft",
        f"description: {QUOTED}",
        f"tools: [search, {QUOTED}]",
        f"landing_prompt: {QUOTED}",
        f"agents: [{QUOTED}]",
        f"{json.dumps('key ' + SENDABLE)}: {QUOTED}",
        body=f"You {SENDABLE} find.",
    )
    write("hard", f"countdown: {{from: {QUOTED}}}", f"tool_calls_limit: {QUOTED}")
    write("served", f"mcp_servers: {{{json.dumps('s' + SENDABLE)}: {{command: {QUOTED}, args: [{QUOTED}]}}}}")
    write("lacking", f"mcp_servers: {{s: {{command: {json.dumps('no' + NAMEABLE)}}}}}")
    write("importing", f"python_tools: [{json.dumps('module' + SENDABLE + ':f')}]")
    folder = notes / "specialists"
    (folder / "raw.md").write_bytes(
        b"---\nname: raw\x1b]0;owned\x07\x9b\ndescription: [ \x1b[2J\n bad: yaml: {\n---\nbody\n"
    )
    (folder / f"name{NAMEABLE}.md").write_text(f"---\ndescription: d\nname: {QUOTED}\n---\nbody")
    (folder / os.fsdecode(b"caf\xe9\x1b[2Jowned.md")).write_text("---\ndescription: d\n---\nbody")
    monkeypatch.setenv("SPECIALIST_STORE", f"sqlite:///{notes}/runs.db")
    return notes


def held(shown, *, harmless=()):
    """Check that every command showed the text without its control characters.

    harmless: Commands that do not show the text at all.
    """
    assert {command: harm(text) for command, text in shown.items() if harm(text)} == {}
    silent = [command for command, text in shown.items() if "owned" not in text]
    assert silent == list(harmless)


@pytest.mark.exhaustive
def test_texts_of_models_and_servers_are_sanitized(api, poisoned):
    """Texts of models and servers are made harmless in the live view, in JSON, in events and in stored runs.

    They are streamed text, names and arguments of tools, answers, evidence, gaps, refusals and errors.
    """
    fields = {"evidence": [{"source": SENDABLE, "quote": SENDABLE}], "gaps": [SENDABLE]}
    api(
        [
            says(SENDABLE, tool_use("search", {"query": f"owls {SENDABLE}"})),
            says(tool_use("read", {"path": f"notes/{SENDABLE}", SENDABLE: SENDABLE})),
            says(tool_use("ls", {"path": "notes"}), tool_use("search", {"query": "owls"})),
            answers(f"It is {SENDABLE}", **fields),
            answers(f"It is {SENDABLE}", **fields),
            says(f"plain text {SENDABLE}"),
            refuses(f"cyber {SENDABLE}"),
            faults.ApiError(400, "invalid_request_error", f"bad {SENDABLE}"),
        ],
        may_refuse=["model.known"],
    )
    shown = on_terminal(
        poisoned,
        [
            (RUN, "finder", f"What do owls eat? {NAMEABLE}"),
            (LOOK_AFTER, "runs"),
            (LOOK_AFTER, "runs", "--json"),
            (LOOK_AFTER, "transcript", "last"),
            (LOOK_AFTER, "transcript", "last", "--json"),
            (LOOK_AFTER, "report", "last", "--json"),
            (LOOK_AFTER, "report", "last", "--out", "-"),
            (RUN, "finder", "as JSON", "--json"),
            (RUN, "finder", "as events", "--events"),
            (RUN, "finder", "refused"),
            (RUN, "finder", "broken"),
            (RUN, "finder", "by a model that does not exist", "--model", f"x{NAMEABLE}"),
            (LOOK_AFTER, "tune", "finder"),
        ],
    )
    # The summary of many runs repeats none of their texts.
    held(shown, harmless=["specialists tune finder"])


def test_texts_of_files_and_arguments_are_sanitized(poisoned):
    """Front matter, file names and contents, invalid YAML and invalid arguments are made harmless."""
    given = [("--root", NAMEABLE), ("--store", f"x://{NAMEABLE}"), ("--tool-calls-limit", NAMEABLE)]
    held(
        on_terminal(
            poisoned,
            [
                (RUN, "soft", "What do owls eat?", "--model", "offline"),
                (RUN, "hard", "x"),
                (RUN, "served", "x"),
                (RUN, "lacking", "x", "--trust", "--model", "offline"),
                (RUN, "importing", "x", "--trust"),
                (LOOK_AFTER, "list"),
                (LOOK_AFTER, "list", "--json"),
                (LOOK_AFTER, "check"),
                (LOOK_AFTER, "check", "--json"),
                (LOOK_AFTER, "show", "soft"),
                (LOOK_AFTER, "show", "soft", "--json"),
                (LOOK_AFTER, "show", "raw"),
                (LOOK_AFTER, "show", "served"),
                (LOOK_AFTER, "show", "importing"),
                (RUN, f"no{NAMEABLE}", "x"),
                *((RUN, "finder", "x", flag, value) for flag, value in given),
                (LOOK_AFTER, NAMEABLE),
                (LOOK_AFTER, "check", NAMEABLE),
                (LOOK_AFTER, "runs", "--status", NAMEABLE),
                (LOOK_AFTER, "transcript", NAMEABLE),
                (LOOK_AFTER, "report", NAMEABLE, "--out", NAMEABLE),
                (LOOK_AFTER, "tune", NAMEABLE),
                (LOOK_AFTER, "new", NAMEABLE, "--description", "x"),
            ],
        )
    )


def test_an_answer_reaches_a_pipe_unchanged(api, write, call):
    """A pipe gets the model's answer unchanged; the lines on standard error have no control characters."""
    write("finder")
    api([says(tool_use("search", {"query": "owls"})), answers(SENDABLE, evidence=[{"source": "x", "quote": SENDABLE}])])
    done = call("finder", "What do owls eat?")
    assert done.stdout == f"{SENDABLE}\n"
    assert "quote not found in the tool results" in done.stderr
    assert harm(done.stderr) == []


def test_json_escapes_control_characters():
    """JSON output escapes control characters and lone surrogates, and parses back to the same text."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    print_json({POISON: [POISON, "caf\u00e9 \u6f22\u5b57"]}, to=out)
    printed = out.buffer.getvalue().decode()
    assert json.loads(printed) == {POISON: [POISON, "caf\u00e9 \u6f22\u5b57"]}
    assert harm(printed) == []
    assert "caf\u00e9 \u6f22\u5b57" in printed


def test_special_spaces_and_joiners_are_kept():
    """Non-breaking spaces and joiners, as in French, Japanese, Persian and emoji sequences, are kept."""
    meant = "12\u202f000\u00a0\u20ac \u3000\u6f22 \u0645\u06cc\u200c\u062e\u0648 \U0001f469\u200d\U0001f467"
    assert printable(meant) == meant
    assert harm(printable(POISON)) == []
