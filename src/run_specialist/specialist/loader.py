"""Load specialist files; any content, even invalid, gives a result that can be listed."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from run_specialist.safe_files import safe_open
from run_specialist.specialist.checks import check_output_schema, check_tools, validate
from run_specialist.specialist.defaults import Default
from run_specialist.specialist.dialects import ENDINGS, dialect_of, is_file_name, is_toml
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.mcp_servers.server_checks import check_servers
from run_specialist.specialist.origins import OriginKind
from run_specialist.specialist.placeholders import check_placeholders
from run_specialist.specialist.problems import START, Problem, Problems, shown
from run_specialist.specialist.project import is_own
from run_specialist.specialist.raw_fields import take_values
from run_specialist.specialist.reading.frontmatter import FrontMatter, read
from run_specialist.specialist.reading.toml_file import read_toml

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
        with safe_open.open_file(path, project) as file:
            data = file.read(LARGEST + 1)
    except safe_open.NotRegular:
        return load_unreadable(path, "is not a regular file")
    except OSError as error:
        return load_unreadable(path, f"cannot be read: {error.strerror or error}")
    except ValueError as error:
        return load_unreadable(path, f"cannot be read: {error}")
    if len(data) > LARGEST:
        return load_unreadable(path, f"is larger than {LARGEST // 1024**2} MiB")
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
    given = take_values(front, problems)
    name, description = _name(given, front, problems), _description(given, front, problems)
    check_tools(given, front, problems)
    check_servers(given, front, problems)
    specialist = validate(given | {"name": name, "description": description}, front, problems)
    check_output_schema(given, front, problems, project)
    check_placeholders(data, given, front, problems)
    file = SpecialistFile(
        path=problems.path,
        name=name,
        description=description,
        tools=given.get("tools"),
        model=given.get("model"),
        tool_calls_limit=_limit_as_given(given.get("tool_calls_limit"), problems),
        specialist=specialist,
        may_circle="*" in given.get("agents", ()) or _is_derived("agents", "tools", front),
        lines={key: field.key_place.line for key, field in front.fields.items()},
    )
    return file.with_problems(problems.sorted())


def _is_derived(key: str, source: str, front: FrontMatter) -> bool:
    """Return whether the value of a key is derived from another key."""
    return key in front.fields and front.fields[key] is front.fields.get(source)


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


def _limit_as_given(value: object, problems: Problems) -> int | Literal["none"] | None:
    if any(p.key == "tool_calls_limit" and p.level == "error" for p in problems.found):
        return None
    return value if isinstance(value, int) else "none" if isinstance(value, str) else None
