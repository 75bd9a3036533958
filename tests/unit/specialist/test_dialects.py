"""Agent files of other programs are found where these programs keep them, with the name of the program."""

from pathlib import Path

import pytest

from run_specialist.specialist.dialects import dialect_of
from run_specialist.specialist.project import packaged, places
from run_specialist.specialist.registry import Registry

TEXT = "---\ndescription: d\n---\nBody\n"
TOML = 'description = "d"\ndeveloper_instructions = "Body"\n'

FOUND = {
    ".claude/agents/team/a.md": "claude",
    ".github/agents/b.agent.md": "copilot",
    ".github/agents/c.md": "copilot",
    ".gemini/agents/d.md": "gemini",
    ".opencode/agents/deep/er/e.md": "opencode",
    ".opencode/agent/f.md": "opencode",
    ".codex/agents/team/g.toml": "codex",
    ".cursor/agents/h.md": "cursor",
    "specialists/deep/i.md": "run-specialist",
}
NOT_FOUND = (
    ".github/agents/README.md",
    ".github/agents/deep/no.agent.md",
    ".github/no.agent.md",
    ".gemini/agents/_draft.md",
    ".gemini/agents/deep/no.md",
    ".codex/agents/no.md",
    ".codex/config.toml",
    ".cursor/agents/no.toml",
    ".claude/agents/.hidden/no.md",
    "specialists/no.toml",
)


def write(path: Path, text: str | None = None) -> None:
    """Write an agent file of the kind that its ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or (TOML if path.suffix == ".toml" else TEXT))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project, beside a home folder of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def listed(project: Path) -> Registry:
    """Return the specialists of a project and its user."""
    return Registry(places(project))


def test_every_dialect_is_found_in_a_project(project: Path) -> None:
    """Files are found in the folders and subfolders that each program reads, in the order of the folders."""
    for name in (*FOUND, *NOT_FOUND):
        write(project / name)
    own = [file for file in listed(project).files() if not file.path.is_relative_to(packaged())]
    found = {str(file.path.relative_to(project)): file.dialect for file in own}
    assert found == FOUND
    assert [file.name for file in own] == ["i", *"abcdefgh"]
    assert {file.specialist and file.specialist.prompt for file in own} == {"Body"}


def test_the_nearer_dialect_hides_the_farther_one(project: Path) -> None:
    """Of one name the project's file wins over the user's, ours over theirs; each hidden one says by which."""
    home = project.parent / "home"
    chain = (
        project / "specialists" / "same.md",
        project / ".claude" / "agents" / "same.md",
        project / ".codex" / "agents" / "same.toml",
        home / ".config" / "run-specialist" / "specialists" / "same.md",
        home / ".gemini" / "agents" / "same.md",
    )
    for path in chain:
        write(path)
    registry = listed(project)
    assert registry.find("same").path == chain[0]
    same = [file for file in registry.files() if file.name == "same"]
    assert [file.path for file in same] == list(chain)
    hidden = [[p.text for p in file.problems if p.level == "warning"] for file in same]
    assert hidden == [[], *[[f"hidden by a nearer file with the same name, {chain[0]}"]] * 4]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/repo/opencode/agents/x.md", "run-specialist"),
        ("/repo/opencode/agents.md", "run-specialist"),
        ("/repo/.claude/agents", "claude"),
        ("/repo/.claude/agents/.codex/agents/x.md", "codex"),
        ("/repo/.claude/worktrees/a/specialists/x.md", "run-specialist"),
        ("/elsewhere/x.toml", "codex"),
    ],
)
def test_the_dialect_follows_from_the_path(path: str, name: str) -> None:
    """The innermost folder of a program decides; a folder that only has the name of a program does not."""
    assert dialect_of(Path(path)).name == name


def test_a_folder_of_a_program_that_is_a_link_out_of_the_project_is_not_read(project: Path) -> None:
    """A link that leads out of the project is listed with an error, whichever program's folder it is."""
    outside = project.parent / "outside"
    write(outside / "x.toml")
    (project / ".codex").mkdir()
    (project / ".codex" / "agents").symlink_to(outside)
    (bad,) = [file for file in listed(project).files() if file.status == "error"]
    assert bad.path == project / ".codex" / "agents"
    assert "cannot be listed" in bad.problems[0].text
