"""`specialists config` and `specialists show` name the value of each key and where it is from."""

import json

from run_specialist.api.config_files import KEYS
from tests.cli.specialists_command import call as manage
from tests.contracts.printed_tables import PRINTED
from tests.contracts.shapes import faults


def test_config_shows_each_key_with_its_source(write, project_file, user_file, monkeypatch, tmp_path):
    """The table names file and line, the variable or the default, and the places that were tried."""
    own = user_file("store = '/a/runs.db'", "model = 'opus'")
    project_file("", "model = 'haiku'", "time_limit = '10m'")
    monkeypatch.setenv("SPECIALIST_STORE", "postgresql://me:hush@host/runs")
    shown = manage("config").stdout
    rows = {line.split()[0]: line.split()[1:] for line in shown.split("\n\n", maxsplit=1)[0].splitlines()[1:]}
    assert list(rows) == list(KEYS)
    assert rows["model"] == ["haiku", "pyproject.toml:3"]
    assert rows["time_limit"] == ["10m", "pyproject.toml:4"]
    assert rows["tool_calls_limit"] == ["30", "default"]
    assert rows["quiet"] == ["false", "default"]
    assert rows["store"] == ["postgresql://me:***@host/runs", "SPECIALIST_STORE"]
    assert "pyproject.toml: read\n~/.config/run-specialist/config.toml: read" in shown
    told = json.loads(manage("config", "--json").stdout)
    assert list(faults(told, PRINTED["specialists config"])) == []
    assert set(told["settings"]) == set(KEYS)
    own.unlink()
    assert "~/.config/run-specialist/config.toml: does not exist" in manage("config").stdout
    monkeypatch.setenv("SPECIALIST_CONFIG", "none")
    assert "No config file is read: SPECIALIST_CONFIG is none." in manage("config").stdout


def test_show_names_the_config_file(write, project_file):
    """`specialists show` has the values of the config files with their places."""
    write("finder", "turns_limit: 4")
    project_file("turns_limit = 9", "time_limit = '10m'", "preset = 'soft-warning'")
    lines = [line.split() for line in manage("show", "finder").stdout.splitlines()]
    assert ["time_limit", "pyproject.toml:3", "600"] in lines
    assert ["tool_chars_limit", "preset", "soft-warning,", "pyproject.toml:4", "100000"] in lines
    assert ["turns_limit", "line", "4", "4"] in lines
    settings = json.loads(manage("show", "finder", "--json").stdout)["settings"]
    assert settings["time_limit"]["source"] == "project"
    assert settings["time_limit"]["path"].endswith("/pyproject.toml")
