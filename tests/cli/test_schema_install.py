"""`specialists schema --install`: the schema in a project, and the settings of VS Code to paste."""

import json
from pathlib import Path

import jsonschema

from tests.cli.specialists_command import call

SCHEMA, SETTINGS = Path(".vscode/specialist.schema.json"), Path(".vscode/settings.json")
ENTRY = {"./.vscode/specialist.schema.json": ["specialists/*.md", ".claude/agents/*.md"]}


def test_the_schema_is_written_and_the_settings_are_printed(project: Path) -> None:
    """The schema is new, the exact lines to paste are printed, and the settings of the user are never touched."""
    SCHEMA.parent.mkdir()
    SETTINGS.write_text('{ // mine\n  "a": 1,\n}\n')
    result = call("schema", "--install")
    assert result.exit_code == 0
    first, empty, advice, lines = result.stdout.split("\n", 3)
    assert (first, empty, advice) == (f"{SCHEMA}  written", "", f"Add these lines to {SETTINGS}:")
    assert json.loads(f"{{{lines}}}") == {"yaml.schemas": ENTRY}
    assert SETTINGS.read_text() == '{ // mine\n  "a": 1,\n}\n'
    assert sorted(path.name for path in SCHEMA.parent.iterdir()) == ["settings.json", "specialist.schema.json"]


def test_the_installed_schema_suggests_names_and_allows_others(project: Path) -> None:
    """The installed schema is draft 7, suggests tools and models, and accepts any other name."""
    call("schema", "--install")
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
    printed = json.loads(call("schema").stdout)
    assert printed | {"$schema": schema["$schema"]} == schema


def test_nothing_outside_of_the_project_is_written(project: Path, tmp_path: Path) -> None:
    """Links that lead out of the project are refused."""
    outside = tmp_path / "outside"
    outside.mkdir()
    Path(".vscode").symlink_to(outside)
    result = call("schema", "--install")
    assert result.exit_code == 2
    assert "leads outside the project" in result.stderr
    assert not list(outside.iterdir())
