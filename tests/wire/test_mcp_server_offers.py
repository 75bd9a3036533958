"""The tools of an MCP server: only specialists that can work here, and no offline answer without a notice.

The server is the real program, its client the official one.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.cli.specialists_command import call as specialists
from tests.forked_program import run_forked
from tests.wire.looker_script import listed
from tests.wire.serving import PATIENCE, Program, command, owl_project, write_specialist

HTTP = ("--http", "0", "--no-token")
UNJUDGED = "no model judged: this ran offline, by ranked search and verbatim quotes"
PACKAGED = ["codebase-analyst", "error-tracer"]
"""Specialists of the package that need neither a model nor notes."""
KNOWN = {*PACKAGED, "change-impact", "fact-checker", "finder", "thoughts-analyzer", "thoughts-locator"}
"""All of the package and of the project; a user may have added others to the folder of this repository."""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """Create a project with a text and a specialist for it, without notes or docs, and change into it."""
    root = owl_project(tmp_path, monkeypatch)
    (root / "notes").rename(root / "lore")
    write_specialist(root, "finder", "tool_calls_limit: 4", "paths: [lore]")
    return root


@pytest.fixture
async def client(place, program) -> AsyncIterator[Client]:
    """Start the program, and connect the official client to it."""
    url = await asyncio.to_thread(program(*HTTP).url)
    async with asyncio.timeout(PATIENCE), Client(url) as connected:
        yield connected


async def names(client: Client) -> list[str]:
    """Return the known specialists that are offered, as tools and by `start_run`, which must be the same."""
    tools = listed(await client.list_tools())
    offered = [name for name in tools if name not in {"start_run", "get_run", "steer_run", "cancel_run"}]
    assert tools["start_run"].input_schema["properties"]["specialist"]["enum"] == offered
    return sorted(KNOWN & set(offered))


@pytest.mark.exhaustive
async def test_only_what_can_work_is_offered(client, place):
    """Specialists without files or without the model they need are not listed; the list follows the folder."""
    assert await names(client) == sorted([*PACKAGED, "finder"])
    (place / "thoughts").mkdir()
    (place / "thoughts" / "a.md").write_text("Owls sleep by day.\n")
    assert await names(client) == sorted([*PACKAGED, "finder", "thoughts-analyzer", "thoughts-locator"])
    result = await client.call_tool("thoughts-analyzer", {"query": "When do owls sleep?"})
    assert "Owls sleep by day." in result.content[0].text
    (place / "thoughts" / "a.md").unlink()
    assert await names(client) == sorted([*PACKAGED, "finder"])


@pytest.mark.exhaustive
async def test_a_call_of_what_cannot_work_says_why(client):
    """A client that uses the name anyway gets the reason, alternatives, or how to get a model."""
    notes = await client.call_tool("thoughts-analyzer", {"query": "How do owls hunt?"})
    begun = await client.call_tool("start_run", {"specialist": "thoughts-analyzer", "query": "How do owls hunt?"})
    judged = await client.call_tool("fact-checker", {"query": "Owls eat mice."})
    unknown = await client.call_tool("start_run", {"specialist": "nobody", "query": "?"})
    assert all(one.is_error for one in (notes, begun, judged, unknown))
    for one in (notes, begun):
        assert "matches thoughts/" in one.content[0].text
        assert "; these work here: finder, " in one.content[0].text
    assert "the answer is a judgement (offline: refuse) and needs a model, but no model" in judged.content[0].text
    assert "fact-checker" not in unknown.content[0].text
    assert "codebase-analyst" in unknown.content[0].text


@pytest.mark.exhaustive
async def test_an_offline_answer_says_so_first(place):
    """Over stdio, the first line for the model says that no model judged, as do the warnings, however it is asked."""
    name, *rest = command()
    target = StdioServerParameters(command=name, args=rest, env=dict(os.environ))
    async with asyncio.timeout(PATIENCE), Client(target) as client:
        result = await client.call_tool("finder", {"query": "What do owls eat?"})
        begun = await client.call_tool("start_run", {"specialist": "finder", "query": "What do owls eat?"})
        given = {"run_id": begun.structured_content["run_id"], "wait_seconds": PATIENCE}
        later = await client.call_tool("get_run", given)
    assert result.structured_content["warnings"] == [UNJUDGED]
    assert later.structured_content["outcome"]["warnings"] == [UNJUDGED]
    for one in (result, later):
        head, *rest = one.content[0].text.split("\n\n")
        assert head.startswith("[finder: answered after ")
        assert head.endswith(" tool calls, offline: no model judged]")
        assert "Warnings:" not in "\n".join(rest)


def said_at_start(program: Program) -> list[str]:
    """Return the lines on standard error up to the one with the address."""
    lines = []
    for line in program.process.stderr:
        lines.append(line.removeprefix("specialists: ").rstrip("\n"))
        if line.startswith("specialists: serving "):
            return lines
    raise AssertionError(lines)


def test_the_start_says_what_is_missing(place, program):
    """One line says that no model judges and how to get one; one line per reason lists unserved specialists."""
    judged, missing, note, serves = [line for line in said_at_start(program(*HTTP)) if "without a token" not in line]
    assert missing.startswith("not served: thoughts-analyzer, thoughts-locator cannot work here: no file under ")
    refused = "not served: change-impact, fact-checker cannot work here: the answer is a judgement (offline: refuse)"
    assert judged.startswith(refused)
    assert note == (
        "warning: no model judges the answers: they are made offline, by ranked search and verbatim quotes, because no "
        "model is configured; set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL, or name a model, e.g. sonnet, openai:ID or "
        "ollama:NAME"
    )
    working = [one for one in json.loads(specialists("list", "--json").stdout)["specialists"] if not one["unavailable"]]
    assert {one["name"] for one in working} >= {*PACKAGED, "finder"}
    assert serves.startswith(f"serving {len(working)} specialists on http")


@pytest.mark.exhaustive
def test_the_start_names_those_without_a_model(place, program, monkeypatch):
    """If only some are answered offline, the line names them; with a model for all there is none."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    assert not [line for line in said_at_start(program(*HTTP)) if "no model judges" in line]
    write_specialist(place, "quoter", "model: offline")
    (note,) = [line for line in said_at_start(program(*HTTP)) if "no model judges" in line]
    assert note.startswith("warning: no model judges the answers of quoter: they are made offline")
    assert "the model in its file is offline" in note


@pytest.mark.exhaustive
@pytest.mark.parametrize(("flags", "variable"), [(["--require-model"], ""), ([], "yes")])
def test_a_server_without_any_model_does_not_start(place, monkeypatch, flags, variable):
    """With `--require-model` or the variable the server exits with 2 and one line, also over HTTP."""
    monkeypatch.setenv("SPECIALIST_REQUIRE_MODEL", variable)
    for transport in ([], HTTP):
        given = {"capture_output": True, "text": True, "timeout": PATIENCE, "stdin": subprocess.DEVNULL}
        done = run_forked(command(*transport, *flags), **given)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("specialists: a model is required")
        assert "set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL, or name a model" in line
    assert not (place.parent / "runs.db").exists()
