"""`specialists schema --install`: the schema and the settings of VS Code in a project."""

import json
import os
import stat
from pathlib import Path

import jsonschema
import pytest

from run_specialist.cli import editor_settings
from tests.cli.specialists_command import call

SCHEMA, SETTINGS = Path(".vscode/specialist.schema.json"), Path(".vscode/settings.json")
ENTRY = {"./.vscode/specialist.schema.json": ["specialists/*.md", ".claude/agents/*.md"]}


def test_schema_and_settings_are_written_and_shown(project: Path) -> None:
    """Both files are new, their names and the entry are printed, and a second time changes nothing."""
    first = call("schema", "--install")
    assert first.exit_code == 0
    assert first.stdout.splitlines()[:2] == [f"{SCHEMA}  written", f"{SETTINGS}  written"]
    assert json.loads(f"{{{first.stdout.splitlines()[-1]}}}") == {"yaml.schemas": ENTRY}
    assert json.loads(SETTINGS.read_text()) == {"yaml.schemas": ENTRY}
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in (SCHEMA, SETTINGS)}
    again = call("schema", "--install")
    assert again.stdout.splitlines()[:2] == [f"{SCHEMA}  unchanged", f"{SETTINGS}  unchanged"]
    assert {path: (path.stat().st_ino, path.read_bytes()) for path in (SCHEMA, SETTINGS)} == before
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
    assert {"sonnet", "inherit", "offline"} <= set(schema["properties"]["model"]["anyOf"][0]["enum"])
    printed = json.loads(call("schema").stdout)
    assert printed | {"$schema": schema["$schema"]} == schema


def test_other_settings_and_comments_are_kept(project: Path) -> None:
    """Comments, other keys, line ends and permissions of the settings stay as they are."""
    SETTINGS.parent.mkdir()
    text = '{\r\n\t// mine\r\n\t"editor.tabSize": 4, /* four */\r\n\t"yaml.schemas": {"./b.json": "b.yaml",},\r\n}\r\n'
    SETTINGS.write_bytes(text.encode())
    SETTINGS.chmod(0o640)
    assert f"{SETTINGS}  changed" in call("schema", "--install").stdout
    changed = SETTINGS.read_bytes().decode()
    for part in ("// mine\r\n", '"editor.tabSize": 4, /* four */\r\n', '"./b.json": "b.yaml",}', "specialists/*.md"):
        assert part in changed
    assert stat.S_IMODE(SETTINGS.stat().st_mode) == 0o640


def test_an_entry_of_the_user_is_kept(project: Path) -> None:
    """If the settings already name the schema, its list of files is not changed."""
    SETTINGS.parent.mkdir()
    text = json.dumps({"yaml.schemas": {"./.vscode/specialist.schema.json": ["agents/*.md"]}})
    SETTINGS.write_text(text)
    assert f"{SETTINGS}  unchanged" in call("schema", "--install").stdout
    assert SETTINGS.read_text() == text


@pytest.mark.parametrize("text", ['{"a": ', '{"yaml.schemas": "x"}', "[]", "[" * 100_000])
def test_settings_that_cannot_be_changed_are_refused(project: Path, text: str) -> None:
    """One line with the lines to add; neither file is written, exit code 2."""
    SETTINGS.parent.mkdir()
    SETTINGS.write_text(text)
    result = call("schema", "--install")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "nothing was written. Add these lines to it: " in result.stderr
    assert json.loads("{" + result.stderr.partition("to it: ")[2].strip() + "}") == {"yaml.schemas": ENTRY}
    assert SETTINGS.read_text() == text
    assert not SCHEMA.exists()


def test_nothing_outside_of_the_project_is_written(project: Path, tmp_path: Path) -> None:
    """Links that lead out of the project are refused."""
    outside = tmp_path / "outside"
    outside.mkdir()
    Path(".vscode").symlink_to(outside)
    result = call("schema", "--install")
    assert result.exit_code == 2
    assert "leads outside the project" in result.stderr
    assert not list(outside.iterdir())


def test_an_interrupted_write_leaves_the_old_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file cannot be replaced, the old one stays, and no temporary file is left."""
    call("schema", "--install")
    SCHEMA.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(editor_settings.Path, "replace", fail)
    result = call("schema", "--install")
    assert (result.exit_code, SCHEMA.read_text()) == (2, "old")
    assert "specialist.schema.json cannot be written: No space left on device" in result.stderr
    assert sorted(path.name for path in SCHEMA.parent.iterdir()) == ["settings.json", "specialist.schema.json"]


def test_the_root_names_the_project(project: Path, tmp_path: Path) -> None:
    """`--root` chooses the project; a folder that does not exist is refused."""
    other = tmp_path / "other"
    other.mkdir()
    assert call("schema", "--install", "--root", str(other)).exit_code == 0
    assert (other / SETTINGS).is_file()
    assert call("schema", "--install", "--root", str(tmp_path / "none")).exit_code == 2
