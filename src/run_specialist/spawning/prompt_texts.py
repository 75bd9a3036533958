"""The texts that a run adds to a specialist's prompt: skills and project instructions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from run_specialist import prompts
from run_specialist.errors import UsageError
from run_specialist.loop.compaction.plan import tokens
from run_specialist.spawning.trust import Claim, Demand, Trust, demanded, origins_of
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.specialist.problems import Problem
from run_specialist.specialist.project import project_root
from run_specialist.specialist.project_instructions import read_instructions
from run_specialist.specialist.skills import Skill, find_skill


@dataclass(frozen=True, slots=True)
class AddedText:
    """A text that is added to a prompt."""

    name: str
    """`skill NAME`, or the name of the file with the instructions."""
    text: str

    @property
    def tokens(self) -> int:
        """Estimated size of the text [tokens]."""
        return tokens(len(self.text))

    def as_json(self) -> dict[str, str | int]:
        """Return the object that `show --json` prints."""
        return {"name": self.name, "chars": len(self.text), "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """All texts that are added to a prompt."""

    texts: Sequence[AddedText] = ()
    folders: Sequence[str] = ()
    """Folders of skills below the root, whose other files can be read regardless of `paths`."""
    warnings: Sequence[str] = ()

    def followed_by(self, text: AddedText | None) -> "PromptTexts":
        """Return the same with one more text, if there is one."""
        return self if text is None else replace(self, texts=(*self.texts, text))

    def added_to(self, prompt: str) -> str:
        """Return a prompt followed by the texts."""
        return "\n\n".join([prompt, *(one.text for one in self.texts)]) if self.texts else prompt


def read_texts(
    file: SpecialistFile, settings: Specialist, root: Path, trust: Trust, origins: ValueOrigins | None = None
) -> PromptTexts:
    """Read the texts that a specialist asks for; blocks while it reads files.

    root: Folder that the file tools can read.
    origins: Those of the settings; None = all are those of the file.
    Raises UsageError, with the place in the file, for a skill that does not exist or cannot be read, and NotTrusted for
    a skill of the user that a project's file must not use yet.
    """
    project = project_root(root)
    texts, folders = [], []
    warnings = [*trust.check(skills_claim(file, settings, root, origins or origins_of(file)))]
    for name in dict.fromkeys(settings.skills):
        try:
            skill = find_skill(name, file, project)
        except UsageError as error:
            raise UsageError(f"{file.place('skills')}: skills: {error}") from None
        folder = _below(skill, root)
        texts.append(AddedText(f"skill {skill.name}", prompts.skill(skill.name, skill.text, folder)))
        folders += [folder] if folder else []
    if settings.project_instructions:
        found = read_instructions(project, file.dialect)
        if found.text:
            texts.append(AddedText(found.name, prompts.project_instructions(found.name, found.text)))
        if found.problem:
            warnings.append(f"{file.place('project_instructions')}: project_instructions: {found.problem}")
    return PromptTexts(tuple(texts), tuple(folders), tuple(warnings))


def skills_claim(file: SpecialistFile, settings: Specialist, root: Path, origins: ValueOrigins) -> Claim:
    """Return the permission that a file needs for skills from the user's home folder, which its model could reveal."""
    place, demands = f"{file.place('skills')}: skills", list[Demand]()
    for name in dict.fromkeys(settings.skills):
        try:
            skill = find_skill(name, file, project_root(root))
        except UsageError:
            continue
        if skill.is_own:
            action = f"add your skill {skill.name} ({skill.folder}) to its prompt"
            demands += demanded(origins, ["skills"], place, action, f"skill {skill.folder}")
    return Claim(file.path, file.digest, project_root(root), tuple(demands))


def missing_skill(file: SpecialistFile, settings: Specialist, root: Path) -> str:
    """Return why a skill that a specialist names cannot be used, in one clause; empty if all can."""
    try:
        for name in settings.skills:
            find_skill(name, file, project_root(root))
    except UsageError as error:
        return str(error)
    return ""


def with_skills_checked(files: Sequence[SpecialistFile], root: Path) -> list[SpecialistFile]:
    """Return files, each with an error for its first skill that cannot be used in a folder."""
    return [_checked(file, root) for file in files]


def _checked(file: SpecialistFile, root: Path) -> SpecialistFile:
    why = missing_skill(file, file.specialist, root) if file.specialist else ""
    if not why:
        return file
    problem = Problem(file.path, file.lines.get("skills", 1), 1, "skills", why, "error")
    return file.with_problems((*file.problems, problem))


def _below(skill: Skill, root: Path) -> str:
    """Return the folder of a skill relative to the root; empty if it has no other files, or is outside the root."""
    folder, top = skill.folder.resolve(), root.resolve()
    return folder.relative_to(top).as_posix() if skill.has_others and folder.is_relative_to(top) else ""
