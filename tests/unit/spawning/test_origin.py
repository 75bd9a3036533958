"""What a run stores about its project and its limits."""

from pathlib import Path

import pytest

from run_specialist.spawning.spawner import Parent, RunEnvironment, spawn
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.project import project_path
from run_specialist.specialist.settings import resolve
from tests.scripted_provider import ScriptedProvider

FILE = load_text(
    "---\nname: finder\ndescription: Finds\ntool_calls_limit: 5\n---\nYou find.\n", Path("specialists/finder.md")
)


def origin(root, parent=None, **settings):
    """Return the origin of a run."""
    around = RunEnvironment(root, ScriptedProvider([]), parent=parent)
    return spawn(FILE, resolve(FILE, settings).settings, "Why?", around).origin()


@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        ({}, []),
        ({"tool_calls_limit": 5}, []),
        ({"tool_calls_limit": 6}, ["tool_calls_limit"]),
        ({"tool_calls_limit": None, "time_limit": 60}, ["tool_calls_limit", "time_limit"]),
        ({"preset": "soft-warning"}, ["tool_chars_limit"]),
        ({"landing": "order"}, []),
    ],
)
def test_limits_that_are_not_those_of_the_file_are_named(tmp_path, settings, changed):
    """The limits that a flag or a preset of the call sets to another value than the file are named."""
    assert sorted(origin(tmp_path, **settings)["changed_limits"]) == sorted(changed)


def test_c1_all_settings_that_are_not_those_of_the_file_are_named(tmp_path):
    """Not only limits, so that a replay sets them again; a value that is that of the file is none."""
    assert origin(tmp_path, landing="order", tool_calls_limit=5, patience=3)["overridden"] == ["patience", "landing"]
    assert {"preset", "landing"} <= {*origin(tmp_path, preset="finalize")["overridden"]}


def test_the_time_of_a_child_is_not_a_changed_limit(tmp_path):
    """A parent's time always bounds that of its child, so it does not count; its other limits do."""
    parent = Parent("run-1", tmp_path, ())
    assert origin(tmp_path, parent, time_limit=60, tool_calls_limit=2)["changed_limits"] == ["tool_calls_limit"]


def test_the_project_is_the_nearest_folder_with_git(tmp_path):
    """The project is the real path of the folder with `.git` at or above the root, else the root itself."""
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / "a" / "docs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    real = str((tmp_path / "a").resolve())
    for root in ("a", "a/docs", "link", "link/docs"):
        assert project_path(tmp_path / root) == origin(tmp_path / root)["project"] == real
    assert project_path(tmp_path) == str(tmp_path.resolve())
    assert project_path(tmp_path / "a" / "gone") == f"{real}/gone"
