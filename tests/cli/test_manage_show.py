"""The commands `specialists show` and `schema`."""

import json
import re
from pathlib import Path

import jsonschema

from tests.cli.specialists_command import GOOD, call


def shown(*arguments: str) -> dict[str, list[str]]:
    """Return the rows of `show`: source and value by key."""
    rows = [re.split(" {2,}", line.strip()) for line in call("show", *arguments).stdout.split("\n\n")[1].splitlines()]
    assert rows[0] == ["KEY", "FROM", "VALUE"]
    return {key: rest for key, *rest in rows[1:]}


def test_show_prints_each_setting_with_its_source(project: Path) -> None:
    """Each setting shows its line or `default`, those of the file first; problems and prompt follow."""
    (project / "specialists" / "finder.md").write_text(GOOD.replace("tools:", "quux: 1\ntools:"))
    result, rows = call("show", "finder"), shown("finder")
    assert result.exit_code == 0
    assert result.stdout.startswith("finder  warning  specialists/finder.md\nFinds notes\n\n")
    assert rows["tool_calls_limit"] == ["line 6", "12"]
    assert rows["turns_limit"] == ["default", "none"]
    assert rows["paths"] == ["default", "all"]
    assert rows["tool_timeout"] == ["default", "60"]
    assert rows["countdown"] == ["default", "from: 0.5, style: remaining, warn_at: none"]
    assert list(rows)[:3] == ["tools", "tool_calls_limit", "paths"]
    assert "specialists/finder.md:4:1: quux: unknown key" in result.stdout
    assert "\n\nYou find notes.\n\nWhat a run gets:\n" in result.stdout


def test_show_escapes_control_characters(project: Path) -> None:
    """Escape sequences in a file are not printed raw."""
    (project / "specialists" / "finder.md").write_text(GOOD.replace("notes", "no\x1b[31mtes"))
    assert "\x1b" not in call("show", "finder").stdout + call("list").stdout + call("check").stdout


def test_schema_prints_a_valid_json_schema() -> None:
    """`schema` prints a valid JSON Schema that editors can use."""
    jsonschema.Draft202012Validator.check_schema(json.loads(call("schema").stdout))
