"""The specialists as tools of an MCP server: names, schemas, annotations, and results."""

import json

import jsonschema
import pytest

from tests.loop_jobs import LOOK
from tests.scripted_provider import calls, says
from tests.wire.looker_script import FOUND, LOOKS, listed
from tests.wire.serving import serving, write_specialist

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("project")]


async def test_each_specialist_is_a_tool_with_its_limit_as_the_default(looker, mode):
    """Each specialist is a tool with name, description and input schema, listed with the three tools for long runs."""
    async with serving(mode=mode) as served:
        tools = listed(await served.client.list_tools())
    assert [*tools] == ["looker", "start_run", "get_run", "cancel_run"]
    looker_tool = tools["looker"]
    assert (looker_tool.title, looker_tool.description) == ("Looker", "Is looker")
    schema = looker_tool.input_schema
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"]["minLength"] == 1
    assert schema["properties"]["tool_calls_limit"] | {"description": ""} == {
        "type": "integer",
        "minimum": 0,
        "default": 4,
        "description": "",
    }
    assert tools["start_run"].input_schema["properties"]["specialist"]["enum"] == ["looker"]
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)


async def test_a_project_without_specialists_is_served():
    """A project without specialists is served; earlier runs can still be looked up."""
    async with serving() as served:
        assert [*listed(await served.client.list_tools())] == ["get_run", "cancel_run"]
        refused = await served.call("start_run", specialist="looker", query="?")
    assert refused.is_error
    assert "there are: none" in refused.content[0].text


async def test_tool_names_are_sanitized_and_unique(project):
    """Tool names are sanitized, shortened and made unique, and each one calls its own specialist."""
    for number, name in enumerate(["A note: finder!", "A note finder", "start_run", "見つけ", "x" * 70]):
        write_specialist(project, json.dumps(name), "tools: []", file=str(number))
    async with serving([says("Here.")]) as served:
        tools = listed(await served.client.list_tools())
        assert [*tools][:5] == ["A-note-finder", "A-note-finder-2", "start_run-2", "specialist", "x" * 48]
        outcome = (await served.call("A-note-finder-2", query="?")).structured_content
    assert outcome["specialist"] == "A note finder"


async def test_only_a_read_only_specialist_has_the_read_only_hint(project):
    """Only a specialist whose tools just read has the read-only hint."""
    write_specialist(project, "reader")
    write_specialist(project, "asks-reader", "agents: [reader]")
    write_specialist(project, "own", "python_tools: ['json:dumps']")
    write_specialist(project, "foreign", "mcp_servers: {x: {command: 'true'}}")
    write_specialist(project, "asks-own", "agents: [own]")
    write_specialist(project, "editor", "tools: read, Edit", "writable: docs/")
    write_specialist(project, "idle-editor", "tools: read, Edit")
    async with serving() as served:
        tools = listed(await served.client.list_tools())
    hints = {name: (tool.annotations.read_only_hint, tool.annotations.open_world_hint) for name, tool in tools.items()}
    safe, unsafe = (True, False), (False, True)
    assert hints == {
        "reader": safe,
        "asks-reader": safe,
        "own": unsafe,
        "foreign": unsafe,
        "asks-own": unsafe,
        "editor": unsafe,
        "idle-editor": safe,
        "start_run": unsafe,
        "get_run": safe,
        "cancel_run": (False, False),
    }


async def test_a_result_has_the_outcome_as_json_and_text(looker, mode):
    """A result's JSON is the outcome and matches the tool's schema; its text has the answer and the evidence."""
    async with serving([LOOKS, FOUND], mode=mode, tools=[LOOK]) as served:
        schema = listed(await served.client.list_tools())["looker"].output_schema
        result = await served.call("looker", query="What do owls eat?")
    outcome = result.structured_content
    jsonschema.validate(outcome, schema)
    assert not result.is_error
    assert (outcome["status"], outcome["answer"], outcome["tool_calls"]["used"]) == ("answered", "Mice.", 1)
    assert outcome["evidence"] == [{"source": "x", "quote": "note on 'owls', part 0", "verified": True}]
    assert outcome["output"] is None
    assert schema["required"] == [*outcome]
    assert "error" not in outcome
    text = result.content[0].text
    assert text.startswith("[looker: answered after 1 of 4 tool calls]\n\nMice.\n\nEvidence:\n- x: note on")


async def test_the_output_schema_of_a_file_is_part_of_its_tool_schema(project):
    """A specialist's output_schema is part of its tool's schema, and references inside it still resolve."""
    shape = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"prey": {"$ref": "#/$defs/animal"}},
        "required": ["prey"],
        "$defs": {"animal": {"enum": ["mouse", "vole"]}},
    }
    write_specialist(project, "shaped", "tools: []", f"output_schema: {json.dumps(shape)}")
    delivered = calls(("respond", {"answer": {"prey": "vole"}}))
    async with serving([delivered]) as served:
        schema = listed(await served.client.list_tools())["shaped"].output_schema
        outcome = (await served.call("shaped", query="?")).structured_content
    assert outcome["output"] == {"prey": "vole"}
    jsonschema.validate(outcome, schema)
    jsonschema.validate(outcome | {"output": None}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(outcome | {"output": {"prey": "owl"}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(outcome | {"status": "running"}, schema)


async def test_the_limit_of_a_call_overrides_the_file(looker, tmp_path):
    """S2.11 over MCP: a call's limit overrides the file's, and the text names both ways to continue."""
    async with serving([LOOKS, FOUND], tools=[LOOK], store=f"{tmp_path}/runs.db") as served:
        result = await served.call("looker", query="?", tool_calls_limit=1.0, time_limit=None)
    outcome, text = result.structured_content, result.content[0].text
    assert (outcome["status"], outcome["tool_calls"]["limit"]) == ("landed", 1)
    assert "[the limit of 1 tool call was reached; ask again with a larger one" in text
    assert f"specialists resume {outcome['run_id']}]" in text
