"""Where specialists are searched for, and in which order."""

import os
from pathlib import Path

import pytest

from run_specialist.errors import SpecialistNotFound, UsageError
from run_specialist.specialist.project import packaged, places, project_root
from run_specialist.specialist.registry import Registry

IN_PROJECT = (
    "specialists",
    ".claude/agents",
    ".github/agents",
    ".gemini/agents",
    ".opencode/agents",
    ".opencode/agent",
    ".codex/agents",
    ".cursor/agents",
)


def write(path: Path, name: str | None = None, description: str = "d") -> Path:
    """Write a specialist's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"name: {name}\n" if name else ""
    path.write_text(f"---\n{head}description: {description}\n---\nBody\n", "utf-8")
    return path


def paths(*arguments: Path) -> tuple[Path, ...]:
    """Return the paths of the places that are searched for specialists."""
    return tuple(place.path for place in places(*arguments))


def test_the_project_root_is_the_nearest_folder_with_git(tmp_path: Path) -> None:
    """The nearest folder with a `.git` folder or file is the root; without one it is the current folder."""
    deep = tmp_path / "project" / "a" / "b"
    deep.mkdir(parents=True)
    assert project_root(deep) == deep
    (tmp_path / "project" / ".git").write_text("gitdir: elsewhere")
    assert project_root(deep) == tmp_path / "project"


def test_folders_are_searched_from_near_to_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The given folder is searched first, then the project's, the user's and the packaged ones."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "given").mkdir()
    assert paths(tmp_path / "project", tmp_path / "given") == (
        tmp_path / "given",
        *(tmp_path / "project" / folder for folder in IN_PROJECT),
        tmp_path / "config" / "run-specialist" / "specialists",
        tmp_path / "home" / ".claude" / "agents",
        tmp_path / "home" / ".copilot" / "agents",
        tmp_path / "home" / ".gemini" / "agents",
        tmp_path / "config" / "opencode" / "agents",
        tmp_path / "config" / "opencode" / "agent",
        tmp_path / "home" / ".codex" / "agents",
        tmp_path / "home" / ".cursor" / "agents",
        packaged(),
    )
    assert packaged().name == "specialists"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert tmp_path / "home" / ".config" / "run-specialist" / "specialists" in paths(tmp_path)


def test_a_relative_home_or_config_path_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative HOME or config path is ignored, because a project's files would then pass as the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for config in ("config", ".", "~nobody-of-this-name/config"):
        monkeypatch.setenv("XDG_CONFIG_HOME", config)
        assert paths(tmp_path)[len(IN_PROJECT)] == tmp_path / "home" / ".config" / "run-specialist" / "specialists"
    monkeypatch.setenv("HOME", "home")
    assert paths(tmp_path)[len(IN_PROJECT) :] == (packaged(),)


def test_a_given_folder_must_exist(tmp_path: Path) -> None:
    """An explicitly given folder that does not exist is an error."""
    with pytest.raises(UsageError, match="is not a folder"):
        places(tmp_path, tmp_path / "nowhere")


def test_rule_9_the_nearer_file_wins_and_the_other_is_reported(tmp_path: Path) -> None:
    """Rule 9: of two files with one name the nearer one is used; the other reports which file hides it."""
    near, far = write(tmp_path / "near" / "a.md", "x"), write(tmp_path / "far" / "b.md", "x")
    registry = Registry([tmp_path / "near", tmp_path / "far"])
    first, second = registry.files()
    assert (first.path, second.path, first.status, second.status) == (near, far, "ok", "warning")
    assert str(second.problems[-1]) == f"{far}:2:1: name: hidden by a nearer file with the same name, {near}"
    assert registry.find("x").path == near


def test_find_by_name_stem_case_and_path(tmp_path: Path) -> None:
    """A specialist is found by name, then by file stem, then case-insensitively, then by path."""
    a, b = write(tmp_path / "a.agent.md", "Note Finder"), write(tmp_path / "sub" / "b.md", "a")
    registry = Registry([tmp_path])
    assert registry.find("a").path == b
    assert registry.find("b").path == b
    assert registry.find("Note Finder").path == a
    assert registry.find("note finder").path == a
    assert registry.find(str(b)).path == b


def test_an_unknown_name_lists_similar_names_and_folders(tmp_path: Path) -> None:
    """An unknown name gives a one-line error with similar names and the folders searched."""
    write(tmp_path / "codebase-locator.md")
    with pytest.raises(SpecialistNotFound) as caught:
        Registry([tmp_path, tmp_path / "nowhere"]).find("codebase-locater")
    assert str(caught.value) == (
        f"no specialist named codebase-locater; did you mean codebase-locator? (searched: {tmp_path})"
    )
    with pytest.raises(SpecialistNotFound, match="available: codebase-locator"):
        Registry([tmp_path]).find("xyz\n\x1b[31m")
    with pytest.raises(SpecialistNotFound, match="no existing folder"):
        Registry([tmp_path / "nowhere"]).find("gone")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_rule_8_forbidden_files_and_folders_are_reported(tmp_path: Path) -> None:
    """Rule 8: an unreadable file and an unreadable folder are still listed."""
    write(tmp_path / "a.md").chmod(0)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub").chmod(0)
    try:
        files = Registry([tmp_path]).files()
    finally:
        (tmp_path / "sub").chmod(0o700)
    assert [(file.name, file.status) for file in files] == [("a", "error"), ("sub", "error")]


def test_one_file_through_two_places_is_listed_once(tmp_path: Path) -> None:
    """A link to a file that is already listed adds nothing."""
    write(tmp_path / "one" / "a.md")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    assert len(Registry([tmp_path / "one", tmp_path / "two"]).files()) == 1
