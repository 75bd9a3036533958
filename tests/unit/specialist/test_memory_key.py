"""The key `memory`, and the folders with the notes of a specialist."""

from pathlib import Path

import pytest

from run_specialist.spawning.prompt_texts import folder_name, memory_place
from run_specialist.specialist.loader import load_text

PROJECT = Path("/project")


def loaded(*lines: str):
    """Load a specialist with these keys."""
    return load_text("\n".join(["---", "name: finder", "description: d", *lines, "---", "Body"]), Path("finder.md"))


@pytest.mark.parametrize(
    ("lines", "scope"),
    [
        (["memory: user"], "user"),
        (["memory: Project"], "project"),
        (["memory: local"], "local"),
        (["memory: none"], None),
        ([], None),
        (["tools: [read, vscode/memory]"], "local"),
        (["tools: [read, memory]", "memory: user"], "user"),
        (["tools: ['*']"], None),
        (["tools: ['mem*', read]"], None),
    ],
)
def test_the_key_and_the_tool_name_what_is_kept(lines, scope):
    """A file that names the tool of that name without the key keeps local notes; a pattern names nothing."""
    file = loaded(*lines)
    assert file.specialist.memory == scope
    assert [one.text for one in file.problems if one.level == "warning" and one.key == "memory"] == []


@pytest.mark.parametrize("value", ["true", "everywhere", "[user]", "{a: b}"])
def test_another_value_is_a_warning(value):
    """Without notes a specialist runs as well, so a bad value makes no file unusable."""
    file = loaded(f"memory: {value}")
    assert file.specialist.memory is None
    (problem,) = [one for one in file.problems if one.key == "memory"]
    assert (problem.line, problem.level) == (4, "warning")
    assert problem.text.startswith("must be user, project or local, got ")


@pytest.mark.parametrize(
    ("scope", "dialect", "shown"),
    [
        ("project", "claude", ".claude/agent-memory/finder"),
        ("local", "claude", ".claude/agent-memory-local/finder"),
        ("user", "claude", "/home/me/.claude/agent-memory/finder"),
        ("project", "run-specialist", ".run-specialist/memory/finder"),
        ("local", "copilot", ".run-specialist/memory-local/finder"),
        ("user", "gemini", "/home/me/data/run-specialist/memory/finder"),
    ],
)
def test_agents_of_claude_code_have_its_folders_and_all_others_ours(scope, dialect, shown, monkeypatch):
    """What an agent has learnt in Claude Code is known here, and the other way round."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_DATA_HOME", "/home/me/data")
    place = memory_place(scope, "finder", dialect, PROJECT)
    assert place.shown == shown
    assert place.is_in_project == (scope != "user")
    assert place.ignored == (shown.rpartition("/")[0] if scope == "local" else "")


def test_unusual_names_cannot_lead_elsewhere():
    """Names with separators, dots and control characters get a folder of their own, and no two the same."""
    names = ["..", "../x", "/etc", ".git", "a/b", "a\\b", "", " ", "x" * 65, "\0", "a\nb", "x.", "-x", "\ud800"]
    folders = [folder_name(name) for name in names]
    assert len(set(folders)) == len(names)
    assert all(folder.replace("-", "").isalnum() and len(folder) < 60 for folder in folders)
    assert folder_name("plugin:agent") == "plugin-agent"


def test_a_restriction_to_reading_is_a_warning_beside_notes():
    """A specialist that keeps notes does not only read."""
    levels = [
        next(one.level for one in loaded("permissionMode: plan", *more).problems if one.key == "permissionMode")
        for more in ([], ["memory: project"])
    ]
    assert levels == ["notice", "warning"]
