"""Read one config file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from run_specialist.config.config_keys import KEYS, TABLE, canonical, unknown
from run_specialist.config.config_places import near
from run_specialist.config.config_values import value_of
from run_specialist.safe_files import safe_open
from run_specialist.specialist.defaults import Default, Scope
from run_specialist.specialist.ownership import ownership_problem
from run_specialist.specialist.problems import shown
from run_specialist.specialist.reading.toml_table import InvalidToml, TomlTable, read_table

State = Literal["read", "missing", "no table", "ignored"]

LARGEST = 1024 * 1024
"""Maximum size of a config file [bytes]."""
MAX_PROBLEMS = 20
"""Maximum number of errors of one file."""
_MENTION = TABLE[-1].encode()
"""Every file with the table contains these bytes; most project files do not, and are not parsed."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file, whether or not it exists."""

    path: Path
    scope: Scope
    state: State
    """`no table` for a project file without keys for this program, `ignored` for one that must not be used."""
    values: Mapping[str, Default] = field(default_factory=dict)
    """Values with their places, by name of the key."""
    problems: tuple[str, ...] = ()
    """Errors, each with `file:line: key: reason`."""
    reason: str = ""
    """Why the file is ignored."""


def read_project_file(path: Path, project: Path, *, meant: bool) -> ConfigFile:
    """Read the table of this program in the project file of a project, without leaving the project.

    meant: whether the user named the project, which may then belong to another user.
    """
    try:
        with safe_open.open_file(path, project) as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return ConfigFile(path, "project", "missing")
    except (OSError, ValueError) as error:
        return ConfigFile(path, "project", "ignored", reason=getattr(error, "strerror", None) or str(error))
    if _MENTION not in data:
        return ConfigFile(path, "project", "no table")
    if not meant and (owner := ownership_problem(project, path)):
        return ConfigFile(path, "project", "ignored", reason=owner)
    read = _parsed(path, "project", data, TABLE)
    return read if meant else _with_owner_of_folder(read, project)


def _with_owner_of_folder(read: ConfigFile, project: Path) -> ConfigFile:
    folder = read.values.get("dir")
    owner = None if folder is None else ownership_problem(project, folder.value)
    if folder is None or owner is None:
        return read
    return replace(read, problems=(*read.problems, f"{near(read.path)}:{folder.line}: dir: {owner}"))


def read_user_file(path: Path) -> ConfigFile:
    """Read the config file of the user; symlinks are followed anywhere."""
    try:
        with safe_open.open_file(path, None) as file:
            return _parsed(path, "user", file.read(LARGEST + 1), ())
    except (FileNotFoundError, NotADirectoryError):
        return ConfigFile(path, "user", "missing")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return ConfigFile(path, "user", "read", problems=(f"{near(path)}: cannot be read: {reason}",))


def _parsed(path: Path, scope: Scope, data: bytes, names: tuple[str, ...]) -> ConfigFile:
    if len(data) > LARGEST:
        return _bad(path, scope, 1, f"is larger than {LARGEST // 1024**2} MiB")
    try:
        # Editors on Windows put a mark before the text.
        text = data.decode("utf-8").removeprefix("\ufeff")
        table = read_table(text, names)
    except UnicodeDecodeError as error:
        return _bad(path, scope, data.count(b"\n", 0, error.start) + 1, "is not UTF-8")
    except InvalidToml as error:
        return _bad(path, scope, error.line, f"invalid TOML: {error}")
    return ConfigFile(path, scope, "no table") if table is None else _checked(path, scope, table)


def _checked(path: Path, scope: Scope, table: TomlTable) -> ConfigFile:
    values: dict[str, Default] = {}
    problems: list[str] = []
    for name, given in table.values.items():
        key, line = KEYS.get(canonical(name)), table.line(name)
        try:
            if key is None:
                raise ValueError(_unknown(name, scope))  # noqa: TRY301 - one place for the line
            if key.name in values:
                raise ValueError(f"given twice, with `-` and with `_`; first on line {values[key.name].line}")  # noqa: TRY301
            values[key.name] = Default(value_of(key, given, path, scope), scope, path, line)
        except ValueError as error:
            problems.append(f"{near(path)}:{line}: {shown(name)}: {error}")
            if len(problems) == MAX_PROBLEMS:
                problems.append(f"{near(path)}: further keys were not checked")
                break
    return ConfigFile(path, scope, "read", values, tuple(problems))


def _unknown(name: str, scope: Scope) -> str:
    if scope == "user" and name == TABLE[0]:
        return f"put the keys at the top of this file, without [{'.'.join(TABLE)}]"
    return unknown(name)


def _bad(path: Path, scope: Scope, line: int, reason: str) -> ConfigFile:
    return ConfigFile(path, scope, "read", problems=(f"{near(path)}:{line}: {shown(reason, 300)}",))
