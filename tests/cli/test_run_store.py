"""The store for a run of `run-specialist`."""

import json

import pytest

from run_specialist.record.outcome import NO_MODEL
from tests.cli.resumed_commands import MODEL
from tests.cli.specialists_command import call as manage


def test_an_unwritable_default_store_causes_one_warning(notes, write, call, monkeypatch, tmp_path):
    """The run answers with exit code 0 and one warning, and no resume command is printed."""
    home = tmp_path / "home.txt"
    home.write_text("no folder")
    monkeypatch.delenv("SPECIALIST_STORE")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    write("finder", "tool_calls_limit: 1")
    result = call("finder", "What do owls eat?", "--model", "offline")
    assert result.exit_code == 0
    assert "Owls eat mice at night." in result.stdout
    (warning,) = [line for line in result.stderr.splitlines() if "warning" in line]
    assert "this run is not stored" in warning
    assert str(home) in warning
    assert "specialists resume" not in result.stderr
    assert "raise it with --tool-calls-limit for a longer run" in result.stderr
    told = json.loads(call("finder", "What do owls eat?", "--model", "offline", "--json").stdout)
    offline, unstored = told["warnings"]
    assert (offline, "this run is not stored" in unstored) == (NO_MODEL, True)


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_an_unusable_named_store_is_refused_before_any_request(notes, write, call, api, by, monkeypatch):
    """A file that is not a store is refused with one line and left unchanged, and no request is sent."""
    write("finder")
    simulator = api([])
    file = notes / "notes" / "owls.md"
    before = file.read_bytes()
    if by == "environment":
        monkeypatch.setenv("SPECIALIST_STORE", str(file))
    result = call("finder", "What?", *MODEL, *(["--store", str(file)] if by == "flag" else []))
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert f"{file} is not an SQLite database" in result.stderr
    assert simulator.requests == []
    assert file.read_bytes() == before


def test_the_default_store_is_in_the_users_data_directory(notes, write, call, monkeypatch, tmp_path):
    """The folder and the file are accessible only to the user, and `resume` finds the run there."""
    monkeypatch.delenv("SPECIALIST_STORE")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    write("finder", "tool_calls_limit: 1")
    call("finder", "What do owls eat?", "--model", "offline", "--quiet")
    (file,) = tmp_path.rglob("*.db")
    assert file.is_relative_to(tmp_path / "home")
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0
    assert manage("resume", "last", "And toads?", "--quiet").exit_code == 0
