"""Load one specialist file, whatever it contains; write a new one."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import frontmatter
import yaml

from run_specialist.errors import UsageError, errors_as
from run_specialist.safety import safe_files
from run_specialist.specialist import checks
from run_specialist.specialist.dialects import ENDINGS, dialect_of, is_file_name, is_toml
from run_specialist.specialist.fields import Specialist, canonical
from run_specialist.specialist.front_matter import FrontMatter, cut, decode, field_spans, read, read_toml
from run_specialist.specialist.mcp_servers import check_servers
from run_specialist.specialist.origins import OriginKind
from run_specialist.specialist.positions import read_file
from run_specialist.specialist.problems import START, Problem, Problems, shown
from run_specialist.specialist.project import is_own

Scope = Literal["project", "user"]
"""The owner of a config file: the project, which may come from somebody else, or the user."""


@dataclass(frozen=True, slots=True)
class Default:
    """A value and its place."""

    value: Any
    """Checked value, in the form of a specialist file."""
    scope: Scope
    path: Path
    line: int
    users: "Default | None" = None
    """The value of the user's own file for the same key, if the project's one is used instead."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings used if neither the call nor the specialist's file sets them."""

    settings: Mapping[str, Default] = field(default_factory=dict)
    """Settings by key of a specialist file, including `preset`."""
    model: str | None = None
    """Model used if the environment variable sets none."""


NO_DEFAULTS = Defaults()


LARGEST = 32 * 1024 * 1024
_SUFFIXES = (".agent", ".chatmode", ".subagent")
_STAND_IN_LENGTH = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
# A line of text, as opposed to a heading, a rule, a fence or markup.
_WORDS = re.compile(r"[^\w]{0,4}\w")


@dataclass(frozen=True)
class SpecialistFile:
    """A loaded specialist file, whether or not it can be run."""

    path: Path
    name: str
    description: str
    """Never empty: falls back to the first line of text in the body, then to the name."""
    tools: tuple[str, ...] | None = None
    """Names as written in the file; None = not restricted."""
    model: str | None = None
    tool_calls_limit: int | Literal["none"] | None = None
    """Value from the file; None = missing or invalid."""
    problems: tuple[Problem, ...] = ()
    specialist: Specialist | None = None
    """None if the file has an error."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each key, by canonical key; includes unknown keys."""
    digest: str = ""
    """SHA-256 of the bytes that were read; empty if nothing was read."""
    project: Path | None = None
    """Project that contains the file; the paths it names must stay inside. None for the user's own files."""
    may_circle: bool = False
    """Whether a specialist that it calls may call it in turn, because it allows all, or uses another program's key."""
    defaults: Mapping[str, Default] = field(default_factory=dict)
    """Settings from config files, by key; used where the file sets nothing."""
    given_origin: OriginKind | None = None
    """Origin that its place does not show: `caller` if it was made in Python, `data` if only a queue has it."""

    @property
    def origin(self) -> OriginKind:
        """Origin of its values: the caller for the files of the user and of this package, otherwise the project."""
        return self.given_origin or ("caller" if is_own(Path(os.path.realpath(self.path))) else "project")

    @property
    def dialect(self) -> str:
        """Name of the program whose file format it has, by its folder and its extension."""
        return dialect_of(self.path).name

    @property
    def status(self) -> Literal["ok", "warning", "error"]:
        """Worst level among the problems; notices alone count as ok."""
        levels = {problem.level for problem in self.problems}
        return "error" if "error" in levels else "warning" if "warning" in levels else "ok"

    def place(self, key: str) -> str:
        """Return the position of a key as `file:line:column`; the first line if the key is missing."""
        return f"{self.path}:{self.lines.get(key, 1)}:1"

    def strict(self) -> "SpecialistFile":
        """Return the file with every warning turned into an error."""
        problems = tuple(replace(p, level="error") if p.level == "warning" else p for p in self.problems)
        return self.with_problems(problems)

    def with_problems(self, problems: tuple[Problem, ...]) -> "SpecialistFile":
        """Return the file with these problems; an error among them removes `specialist`."""
        bad = any(problem.level == "error" for problem in problems)
        return replace(self, problems=problems, specialist=None if bad else self.specialist)

    def as_json(self) -> dict[str, object]:
        """Return the object that `list --json` and `check --json` print."""
        return {
            "name": self.name,
            "description": self.description,
            "path": str(self.path),
            "dialect": self.dialect,
            "tools": None if self.tools is None else list(self.tools),
            "model": self.model,
            "tool_calls_limit": self.tool_calls_limit,
            "status": self.status,
            "problems": [problem.as_json() for problem in self.problems],
        }


def load(path: Path, project: Path | None = None) -> SpecialistFile:
    """Load a file; failures to read it are returned as a problem, never raised.

    project: Project that contains the file; symlinks must not lead out of it. None to follow all symlinks.
    """
    try:
        data = read_file(path, project, LARGEST)
    except ValueError as error:
        return load_unreadable(path, str(error))
    return replace(_load(data, Problems(path), project), digest=hashlib.sha256(data).hexdigest(), project=project)


def load_text(text: bytes | str, path: Path) -> SpecialistFile:
    """Load text as the content of the file `path`, which need not exist."""
    return _load(text, Problems(path))


def stem(path: Path) -> str:
    """Return the file name without `.md` or `.toml`, and without a suffix such as `.agent` before it."""
    name = path.stem if is_file_name(path.name) else path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name or path.name


def load_unreadable(path: Path, text: str) -> SpecialistFile:
    """Return the entry for a file or folder that could not be read, with `text` as its error."""
    problems = Problems(path)
    problems.error(START, text)
    return SpecialistFile(path, stem(path), stem(path), problems=problems.sorted())


def _load(data: bytes | str, problems: Problems, project: Path | None = None) -> SpecialistFile:
    front = (read_toml if is_toml(problems.path) else read)(data, problems)
    given = checks.take_values(front, problems)
    name, description = _name(given, front, problems), _description(given, front, problems)
    checks.check_tools(given, front, problems)
    check_servers(given, front, problems)
    specialist = checks.validate(given | {"name": name, "description": description}, front, problems)
    checks.check_output_schema(given, front, problems, project)
    checks.check_placeholders(data, given, front, problems)
    limit = given.get("tool_calls_limit")
    if not isinstance(limit, int | str) or ("tool_calls_limit", "error") in {(p.key, p.level) for p in problems.found}:
        limit = None
    is_derived = "agents" in front.fields and front.fields["agents"] is front.fields.get("tools")
    file = SpecialistFile(
        path=problems.path,
        name=name,
        description=description,
        tools=given.get("tools"),
        model=given.get("model"),
        tool_calls_limit="none" if isinstance(limit, str) else limit,
        specialist=specialist,
        may_circle="*" in given.get("agents", ()) or is_derived,
        lines={key: field.key_place.line for key, field in front.fields.items()},
    )
    return file.with_problems(problems.sorted())


def _name(given: dict[str, Any], front: FrontMatter, problems: Problems) -> str:
    fallback = stem(problems.path)
    entry, name = front.fields.get("name"), given.get("name")
    if entry is None or name is None:
        if entry is None and front.present:
            problems.notice(START, f"missing; using the file name, {shown(fallback)}", "name")
        return fallback
    clean = " ".join(_CONTROL.sub(" ", name).split())
    if clean != name:
        problems.warn(entry.place, "contains control characters or repeated blanks, which are removed", "name")
    if is_file_name(clean):
        # A name that ends in .md would be looked up as a path, and another file could be run instead.
        ending = next(ending for ending in ENDINGS if clean.lower().endswith(ending))
        clean = re.sub(r"(?:\.(?:md|toml)\s*)+$", "", clean, flags=re.IGNORECASE)
        problems.warn(entry.place, f"ends in {ending} like a path; the ending is removed", "name")
    if clean and clean != fallback:
        problems.notice(entry.place, f"differs from the file name, {shown(fallback)}", "name")
    return clean or fallback


def _description(given: dict[str, Any], front: FrontMatter, problems: Problems) -> str:
    if "description" in given:
        return str(given["description"])
    if front.present and "description" not in front.fields:
        text = "missing, so parents do not know when to use it; using the first line of the body"
        problems.warn(START, text, "description")
    first = next((line.strip() for line in front.body.split("\n") if _WORDS.match(line)), "")
    return first[:_STAND_IN_LENGTH] or stem(problems.path)


_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_WORD = re.compile(r"[a-z0-9]+")
_LONGEST_NAME = 64

_PROMPT = """\
You are `{name}`, and another agent has put a question to you. {purpose}

## How you work

- Answer the question that you are given, and no other.
- Search first, and read only the lines around a hit; never open file after file.
- Your tool calls are limited: make lookups that do not depend on each other in one turn, and stop when you know enough.

## What counts

- Every statement rests on lines that you have read: name them as `path:line` in `evidence`.
- Where sources disagree, say so, and say which is newer.
- Say what you did not find. Never fill a gap with a guess.

## Your answer

1. The answer itself, in one or two sentences.
2. What it rests on, the most important first, each with its source.
3. What is still open."""


def check_new(folder: Path, name: str, *, overwrite: bool = False) -> Path:
    """Return the path of a new specialist's file; writes nothing.

    Raises UsageError for a name that some file systems or shells reject, and for an existing file.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        near = "-".join(_WORD.findall(name.lower()))[:_LONGEST_NAME].strip("-")
        raise UsageError(
            f"invalid name {shown(name)}: use lower-case letters, digits and single hyphens, at most {_LONGEST_NAME} "
            f"characters{f'; for example {near}' if near else ''}"
        )
    path = folder / f"{name}.md"
    if os.path.lexists(path) and not overwrite:
        raise _exists(path)
    return path


def strict_problems(name: str, given: Mapping[str, object]) -> list[Problem]:
    """Return the problems of a new file that a strict check finds, without those of its placeholders.

    given: as for `write_new`.
    """
    found = load_text(_text(name, given), Path(f"{name}.md")).strict().problems
    return [problem for problem in found if checks.PROBLEM not in problem.text]


def write_new(  # noqa: PLR0913 - the parts of a new file
    folder: Path,
    name: str,
    given: Mapping[str, object],
    *,
    overwrite: bool = False,
    project: Path | None = None,
    source: SpecialistFile | None = None,
) -> Path:
    """Write `folder`/`name`.md with a prompt template and return its path.

    given: Front matter in addition to the name, by canonical key; without a description, placeholders are written.
    project: Project that contains the folder; symlinks must not lead out of it. None to follow all symlinks.
    source: The file to copy, in which only the name and the given keys change; None for the template.
    Raises UsageError for a name or value that fails a strict check, and for an existing file.
    """
    path = check_new(folder, name, overwrite=overwrite)
    if problems := strict_problems(name, given):
        raise UsageError("; ".join(f"{problem.key}: {problem.text}" for problem in problems))
    text = _text(name, given) if source is None else _changed(source, {"name": name, **given})
    with errors_as(UsageError, f"{shown(str(path), None)} cannot be written", OSError):
        top, relative = safe_files.locate(folder, project)
        (top / relative).mkdir(parents=True, exist_ok=True)
        try:
            with safe_files.create_file(path, project, overwrite=overwrite) as file:
                file.write(text.encode())
        except FileExistsError:
            raise _exists(path) from None
    return path


def _exists(path: Path) -> UsageError:
    return UsageError(f"{shown(str(path), None)} already exists; use --force to overwrite it")


# The keys that most files need beside name and description, with examples; those that are not given become comments.
_EXAMPLES = {
    "tools": "search, grep, read",
    "paths": "[docs/, '*.md']",
    "model": "haiku",
    "evidence": "require",
    "output_schema": "{type: object, properties: {found: {type: boolean}}}",
}


def _changed(source: SpecialistFile, given: Mapping[str, object]) -> str:
    """Return the text of a file with other values of some keys, and everything else as it was written.

    Raises UsageError for a file that is not Markdown with front matter, or has errors.
    """
    problems, parts = Problems(source.path), None
    if source.specialist is not None and not is_toml(source.path):
        parts = cut(decode(read_file(source.path, source.project, LARGEST), problems), problems)
    if parts is None or not parts.closed:
        raise UsageError(f"{shown(str(source.path), None)} cannot be copied: it is no Markdown file with valid keys")
    front = parts.text[parts.start : parts.end]
    for key, value in given.items():
        line = yaml.safe_dump({key: value}, allow_unicode=True, width=10_000)
        spans, _ = field_spans(front, 1, closed=True)
        old = next((chunk.text.rstrip() for written, chunk in spans if canonical(written) == key), None)
        front = front + line if old is None else front.replace(old, line.rstrip(), 1)
    return parts.text[: parts.start] + front + parts.text[parts.end :]


def _text(name: str, given: Mapping[str, object]) -> str:
    description = " ".join(str(given.get("description", checks.DESCRIPTION)).split())
    purpose = f"What you are for: {description.rstrip('.')}." if "description" in given else f"\n\n{checks.PURPOSE}"
    post = frontmatter.Post(_PROMPT.format(name=name, purpose=purpose).replace(" \n", "\n"))
    post.metadata = {"name": name, **given, "description": description}
    text = frontmatter.dumps(post, sort_keys=False, width=10_000) + "\n"
    hints = "".join(f"# {key}: {example}\n" for key, example in _EXAMPLES.items() if key not in given)
    return text.replace("\n---\n", f"\n{hints}---\n", 1)
