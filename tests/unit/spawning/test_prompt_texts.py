"""The skills and the instructions of the project that a run adds to a prompt."""

from pathlib import Path

import pytest

from run_specialist.errors import UsageError
from run_specialist.spawning import prompt_texts
from run_specialist.spawning.prompt_texts import missing_skill, read_texts, with_skills_checked
from run_specialist.spawning.trust import RunContext, Trust
from run_specialist.specialist import skills as project_instructions
from run_specialist.specialist.loader import SpecialistFile, load


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project, beside a separate home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def agent(project: Path, *front: str, where: str = "specialists") -> SpecialistFile:
    """Write and load a specialist of a project."""
    path = project / where / "agent.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["---", "name: agent", "description: d", *front, "---", "Body"]))
    return load(path, project)


def skill(folder: Path, text: str) -> Path:
    """Write a skill and return its folder."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    return folder


def added(file: SpecialistFile, project: Path) -> list[str]:
    """Return the texts that are added to a file's prompt."""
    assert file.specialist is not None
    return [one.text for one in read_texts(RunContext(file, file.specialist, project, Trust(given=True))).texts]


def test_skills_are_found_from_near_to_far(project: Path) -> None:
    """A plugin's skill wins over the project's, and that over the user's own; each is read whole."""
    home, plugin = project.parent / "home", project / "plugins" / "one"
    skill(home / ".claude" / "skills" / "a", "of the user")
    skill(home / ".config" / "opencode" / "skills" / "own", "---\nname: own\n---\n\nof opencode\n\n# Part\n")
    file = agent(project, "skills: [a, one:own]", where="plugins/one/agents")
    assert added(file, project) == ["# Skill: a\n\nof the user", "# Skill: own\n\nof opencode\n\n# Part"]
    skill(project / ".claude" / "skills" / "a", "of claude")
    assert added(file, project)[0] == "# Skill: a\n\nof claude"
    skill(project / ".agents" / "skills" / "a", "of the project")
    assert added(file, project)[0] == "# Skill: a\n\nof the project"
    (skill(plugin / "skills" / "a", "of the plugin") / "more.md").write_text("more")
    assert "below `plugins/one/skills/a/`" in added(file, project)[0]
    assert added(file, project)[0].endswith("of the plugin")


@pytest.mark.parametrize("name", ["nope", "../../outside", "..", "a/b", ".hidden", "a\\0b", "x" * 65])
def test_a_missing_skill_is_an_error_with_its_place(project: Path, name: str) -> None:
    """A run does not start, and the check has an error; a name cannot lead to another folder."""
    skill(project.parent / "outside", "secret")
    (project / ".agents" / "skills").mkdir(parents=True)
    file = agent(project, f"skills: ['{name}']")
    assert file.specialist is not None
    reason = "no skill named nope" if name == "nope" else ".* is not a valid skill name"
    with pytest.raises(UsageError, match=rf"agent\.md:4:1: skills: {reason}"):
        read_texts(RunContext(file, file.specialist, project, Trust(given=True)))
    assert missing_skill(file, file.specialist, project)
    (checked,) = with_skills_checked([file], project)
    assert [(p.line, p.key, p.level) for p in checked.problems] == [(4, "skills", "error")]


def test_links_out_of_the_project_are_not_followed(project: Path) -> None:
    """Neither a skill nor instructions come from outside the project by a link; within it links are followed."""
    outside = skill(project.parent / "outside", "secret")
    (project / ".agents" / "skills").mkdir(parents=True)
    (project / ".agents" / "skills" / "out").symlink_to(outside)
    (project / "AGENTS.md").symlink_to(outside / "SKILL.md")
    file = agent(project, "skills: [out]")
    assert file.specialist is not None
    assert "outside the project" in missing_skill(file, file.specialist, project)
    file = agent(project, "project_instructions: true")
    assert file.specialist is not None
    texts = read_texts(RunContext(file, file.specialist, project, Trust(given=True)))
    assert (texts.texts, "outside the project" in str(texts.warnings)) == ((), True)
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("docs.md")
    (project / "docs.md").write_text("inside")
    assert added(file, project)[0].endswith("\n\ninside")


def test_a_skill_that_is_empty_too_large_or_no_file_is_an_error(project: Path) -> None:
    """The error for an invalid skill names its path."""
    folder = project / ".agents" / "skills"
    skill(folder / "empty", "---\nname: empty\n---\n")
    skill(folder / "large", "x" * (project_instructions.LARGEST + 1))
    (folder / "folder" / "SKILL.md").mkdir(parents=True)
    for name, reason in (("empty", "is empty"), ("large", "is larger than 256 KiB"), ("folder", "cannot be read")):
        file = agent(project, f"skills: {name}")
        assert file.specialist is not None
        why = missing_skill(file, file.specialist, project)
        assert (reason in why, f"{name}/SKILL.md" in why) == (True, True)


def test_a_project_file_linked_from_the_own_folder_has_the_own_skills_last(project: Path) -> None:
    """A file of a project stays one by a link: the user's skills beside the link do not hide the project's."""
    claude = project.parent / "home" / ".claude"
    skill(claude / "skills" / "a", "of the user")
    (claude / "agents").mkdir()
    (claude / "agents" / "agent.md").symlink_to(agent(project, "skills: [a]").path)
    file = load(claude / "agents" / "agent.md", project)
    assert added(file, project) == ["# Skill: a\n\nof the user"]
    skill(project / ".agents" / "skills" / "a", "of the project")
    assert added(file, project) == ["# Skill: a\n\nof the project"]


def test_nothing_is_added_unless_the_file_says_so(project: Path) -> None:
    """The prompt of a specialist without these keys is its body, byte for byte, whatever the project has."""
    (project / "AGENTS.md").write_text("rules")
    (project / "CLAUDE.md").write_text("rules")
    file = agent(project)
    assert file.specialist is not None
    texts = read_texts(RunContext(file, file.specialist, project, Trust(given=True)))
    assert (texts.texts, texts.added_to("Body ")) == ((), "Body ")


@pytest.mark.parametrize(
    ("where", "front", "name"),
    [
        ("specialists", "color: red", ""),
        ("specialists", "project_instructions: true", "AGENTS.md"),
        (".claude/agents", "color: red", "CLAUDE.md"),
        (".claude/agents", "omitClaudeMd: true", ""),
        (".claude/agents", "omitClaudeMd: false", "CLAUDE.md"),
        (".github/agents", "color: red", "AGENTS.md"),
        (".opencode/agent", "color: red", "AGENTS.md"),
        (".opencode/agent", "project_instructions: false", ""),
        (".gemini/agents", "color: red", ""),
        (".cursor/agents", "color: red", ""),
        ("specialists", "inheritProjectContext: true", "AGENTS.md"),
    ],
)
def test_programs_that_give_instructions_to_their_agents_do_so_here(
    project: Path, where: str, front: str, name: str
) -> None:
    """By default only agents of some programs get the instructions; each gets one file."""
    (project / "AGENTS.md").write_text("general")
    (project / "CLAUDE.md").write_text("of Claude")
    file = agent(project, front, where=where)
    assert file.specialist is not None
    texts = read_texts(RunContext(file, file.specialist, project, Trust(given=True))).texts
    assert [one.name for one in texts] == ([name] if name else [])
    assert not [problem for problem in file.problems if problem.level == "warning"]


def test_instructions_are_bounded_and_one_file_stands_in_for_the_other(project: Path) -> None:
    """A long file is cut, at a whole character, with a warning; without AGENTS.md there is CLAUDE.md."""
    file = agent(project, "project_instructions: true")
    assert file.specialist is not None
    assert added(file, project) == []
    (project / "CLAUDE.md").write_bytes(b"\xef\xbb\xbf" + "ä".encode() * project_instructions.LARGEST_INSTRUCTIONS)
    texts = read_texts(RunContext(file, file.specialist, project, Trust(given=True)))
    assert texts.texts[0].name == "CLAUDE.md"
    assert texts.texts[0].text.count("ä") == (project_instructions.LARGEST_INSTRUCTIONS - 3) // 2
    assert texts.warnings[0].endswith(":4:1: project_instructions: CLAUDE.md is cut after 32 KiB")


def test_skills_in_a_project_of_another_user_are_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of a project of another user need the same permission as its specialists."""
    skill(project / ".agents" / "skills" / "a", "text")
    (project / "AGENTS.md").write_text("rules")
    file = agent(project, "skills: [a]", "project_instructions: true")
    assert file.specialist is not None
    assert len(added(file, project)) == 2
    for module in (project_instructions, project_instructions):
        monkeypatch.setattr(module, "ownership_problem", lambda *_: "it belongs to another user")
    assert "belongs to another user" in missing_skill(file, file.specialist, project)
    texts = prompt_texts.read_texts(
        RunContext(file, file.specialist.model_copy(update={"skills": ()}), project, Trust(given=True))
    )
    assert (texts.texts, "another user" in str(texts.warnings)) == ((), True)
