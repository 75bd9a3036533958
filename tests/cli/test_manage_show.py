"""The commands `specialists show` and `schema`."""

import json
import re
from pathlib import Path

import jsonschema

from tests.cli.specialists_command import BAD, GOOD, call


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


def test_show_names_settings_from_the_preset_of_the_file(project: Path) -> None:
    """Settings from the preset follow those of the file."""
    lines = "preset: soft-warning\ncountdown: {from: 3}\ntime_limit: 10m\ntools:"
    (project / "specialists" / "finder.md").write_text(GOOD.replace("tools:", lines))
    rows = shown("finder")
    assert rows["countdown"] == ["line 5", "from: 3, style: remaining, warn_at: 1"]
    assert rows["tool_chars_limit"] == ["preset soft-warning", "100000"]
    assert rows["budget_notice"] == ["preset soft-warning", "false"]
    assert (rows["preset"], rows["time_limit"]) == (["line 4", "soft-warning"], ["line 6", "600"])
    assert rows["parallel_tools_limit"] == ["default", "4"]
    sources = [row[0].split()[0] for row in rows.values()]
    assert sources == sorted(sources, key=["line", "preset", "default"].index)
    values = json.loads(call("show", "finder", "--json").stdout)["settings"]
    assert values["countdown"] == {
        "value": {"from": 3, "style": "remaining", "warn_at": 1},
        "source": "file",
        "line": 5,
        "path": None,
    }
    assert values["budget_notice"] == {"value": False, "source": "preset", "line": 4, "path": None}
    assert values["time_limit"] == {"value": 600, "source": "file", "line": 6, "path": None}
    assert values["cost_limit"] == {"value": None, "source": "default", "line": None, "path": None}


def test_show_of_an_invalid_file_has_no_settings(project: Path) -> None:
    """For an invalid file, `show` has its problems and no settings."""
    (project / "specialists" / "bad.md").write_text(BAD)
    result = call("show", "bad", "--json")
    shown = json.loads(result.stdout)
    assert (shown["status"], shown["settings"], shown["prompt"]) == ("error", {}, None)
    assert "specialists/bad.md:4:19: tool_calls_limit" in call("show", "specialists/bad.md").stdout


def test_show_escapes_control_characters(project: Path) -> None:
    """Escape sequences in a file are not printed raw."""
    (project / "specialists" / "finder.md").write_text(GOOD.replace("notes", "no\x1b[31mtes"))
    assert "\x1b" not in call("show", "finder").stdout + call("list").stdout + call("check").stdout


def test_schema_prints_a_valid_json_schema() -> None:
    """`schema` prints a valid JSON Schema that editors can use."""
    jsonschema.Draft202012Validator.check_schema(json.loads(call("schema").stdout))
