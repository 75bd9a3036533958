"""Compare the skills that this program loads and writes with the verdicts of the reference validator of Agent Skills.

    uv run --group test python -m bench.judges.skills [--agents FOLDER] [--verbose]

The skills are those that the validator's own tests create (from its source distribution), every agent file below FOLDER
as the `SKILL.md` of a skill with its name, and the skill in the plugin that `specialists install` writes, for a project
with one specialist and one with eighty. A skill is loaded as a specialist's `skills` loads it. This program must load
what is valid, with the same name and description, and write only what is valid. It also loads most of what is invalid,
because the text of a skill is useful without a well-formed description; each reason is listed with its number.

Both distributions are fetched on first use; nothing of them is copied into the repository.
"""

import argparse
import importlib
import importlib.util
import inspect
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.judges.packages import heading, installed, source, table
from bench.judges.stage import MANAGE, run_command
from bench.process import environment
from run_specialist.errors import UsageError
from run_specialist.specialist.loader import load
from run_specialist.specialist.skills import find_skill

PIN = "skills-ref==0.1.1"
MANY = 80
"""Specialists in the larger project, whose names do not fit into the description of one skill."""


@dataclass(frozen=True, slots=True)
class Case:
    """A skill, judged by both."""

    origin: str
    name: str
    theirs: tuple[str, ...]
    """Errors of the validator; empty if the skill is valid."""
    ours: str
    """Why this program does not load it; empty if it does."""
    differs: str = ""
    """Which of name and description this program reads differently; empty if the skill is invalid."""

    @property
    def reason(self) -> str:
        """The first rule of the validator that the skill violates, without its details."""
        rule = re.sub(r"'[^']*'|\(\d+ chars\)|:.*|\d+ character ", "", self.theirs[0], flags=re.DOTALL)
        return " ".join(rule.split("Only")[0].split()).rstrip(".")


def their_tests(top: Path, folder: Path) -> Iterator[Path]:
    """Run the tests of the validator, and yield the folders of the skills that they create.

    Contents that a test only parses are written as the skill `my-skill`.
    """
    for path in sorted(top.glob("tests/test_*.py")):
        module = _module(path)
        for name, test in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_"):
                made = folder / path.stem / name
                made.mkdir(parents=True)
                parse = getattr(module, "parse_frontmatter", None)
                if "tmp_path" in inspect.signature(test).parameters:
                    test(tmp_path=made)
                elif parse:
                    module.parse_frontmatter = _recording(parse, made / "my-skill")
                    test()
                    module.parse_frontmatter = parse
                yield from sorted(one for one in made.iterdir() if one.is_dir())


def _module(path: Path) -> Any:  # noqa: ANN401 - a module of the package
    """Import a test module of the package under a name that is free here."""
    spec = importlib.util.spec_from_file_location(f"judged_{path.stem}", path)
    assert spec  # noqa: S101 - the file exists
    assert spec.loader  # noqa: S101 - as above
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _recording(parse: Callable[[str], object], folder: Path) -> Callable[[str], object]:
    def recorded(content: str) -> object:
        folder.mkdir(exist_ok=True)
        (folder / "SKILL.md").write_text(content, encoding="utf-8")
        return parse(content)

    return recorded


def as_skills(agents: Path, folder: Path) -> Iterator[Path]:
    """Copy each agent file to a skill with the name of the file, and yield their folders."""
    for number, path in enumerate(sorted(agents.rglob("*.md"))):
        made = folder / str(number) / path.name.removesuffix(".md").removesuffix(".agent")
        made.mkdir(parents=True)
        shutil.copyfile(path, made / "SKILL.md")
        yield made


def written(folder: Path, count: int) -> Path:
    """Let `specialists install` write its plugin for a project, and return the folder of its skill."""
    project = folder / f"project-{count}"
    (project / "specialists").mkdir(parents=True)
    for number in range(count):
        text = f"---\nname: reader-of-part-{number:02}\ndescription: Reads part {number}.\n---\nYou read.\n"
        (project / f"specialists/reader-of-part-{number:02}.md").write_text(text)
    flags = ["install", "claude-code", "--plugin", "plugin", "--yes"]
    done = run_command(MANAGE, flags, project, environment(folder / "home"))
    if done.code:
        sys.exit(f"the plugin was not written: {done.err}")
    return project / "plugin/skills/ask-specialists"


def judged(origin: str, skill: Path, judge: Any, place: Path) -> Case:  # noqa: ANN401 - the module of the package
    """Return both verdicts on a skill.

    place: an empty folder, in which a project with this skill is made.
    """
    try:
        theirs = tuple(judge.validate(skill))
    except UnicodeDecodeError:
        theirs = ("The validator itself fails: not UTF-8",)
    shutil.copytree(skill, place / ".agents/skills" / skill.name)
    (place / "specialists").mkdir()
    (place / "specialists/x.md").write_text(
        f"---\nname: x\ndescription: X.\nskills: [{skill.name!r}]\n---\nYou read.\n"
    )
    ours = differs = ""
    try:
        find_skill(skill.name, load(place / "specialists/x.md", place), place)
    except UsageError as error:
        ours = str(error).replace(str(place), "")
    if not theirs and not ours:
        file, expected = load(next(skill.glob("[Ss][Kk][Ii][Ll][Ll].md"))), judge.read_properties(skill)
        pairs = {"name": (file.name, expected.name), "description": (file.description, expected.description)}
        differs = ", ".join(key for key, (read, value) in pairs.items() if read != value)
    return Case(origin, skill.name, theirs, ours, differs)


def main() -> None:
    """Judge all skills, and print the sums and each disagreement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=Path, metavar="FOLDER", help="also all agent files (*.md) below this folder")
    parser.add_argument("--verbose", action="store_true", help="print each skill that only this program loads")
    options = parser.parse_args()
    if options.agents and not options.agents.is_dir():
        sys.exit(f"{options.agents} is no folder")
    sys.path.append(str(installed(PIN, alone=False)))
    judge = importlib.import_module("skills_ref")
    print(heading("agent skills", [PIN]))
    cases = list[Case]()
    with tempfile.TemporaryDirectory(prefix="judge-") as made:
        folders = {name: Path(made).resolve() / name for name in ("tests", "agents", "plugin", "projects")}
        for folder in folders.values():
            folder.mkdir()
        skills = [("their tests", skill) for skill in their_tests(source(PIN), folders["tests"])]
        if options.agents:
            skills += [("agent files", skill) for skill in as_skills(options.agents, folders["agents"])]
        skills += [("written by us", written(folders["plugin"], count)) for count in (1, MANY)]
        for number, (origin, skill) in enumerate(skills):
            cases.append(judged(origin, skill, judge, folders["projects"] / str(number)))
    rows = []
    for origin in dict.fromkeys(case.origin for case in cases):
        found = [case for case in cases if case.origin == origin]
        valid = [case for case in found if not case.theirs]
        rows.append(
            [
                origin,
                len(found),
                sum(not case.ours and not case.differs for case in valid),
                sum(bool(case.theirs and case.ours) for case in found),
                sum(bool(case.theirs and not case.ours) for case in found),
                sum(bool(case.ours or case.differs) for case in valid),
            ]
        )
    print(table(["skills", "number", "valid for both", "invalid for both", "loaded, invalid", "wrong here"], rows))
    wrong = [case for case in cases if not case.theirs and (case.ours or case.differs)]
    wrong += [case for case in cases if case.theirs and case.origin == "written by us"]
    lines = [f"- {one.origin}, {one.name}: {one.ours or one.differs or one.theirs}" for one in wrong]
    print("\nWrong here:", *(lines or ["none"]), sep="\n")
    reasons = Counter((case.origin, case.reason) for case in cases if case.theirs and not case.ours)
    print()
    print(table(["skills", "invalid because", "loaded here"], [[*key, number] for key, number in reasons.items()]))
    if options.verbose:
        for case in cases:
            print(f"{case.origin}: {case.name}: {case.theirs or 'valid'}; here: {case.ours or 'loaded'}")


if __name__ == "__main__":
    main()
