"""Install the schema of the front matter for editors: a file with the schema, and an entry in VS Code's settings."""

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from run_specialist.cli.console import print_line, say
from run_specialist.errors import UsageError
from run_specialist.safety import safe_files
from run_specialist.specialist.problems import shown

SCHEMA = ".vscode/specialist.schema.json"
SETTINGS = ".vscode/settings.json"
KEYS = ("yaml.schemas", f"./{SCHEMA}")
"""Path of the entry in the settings; its value lists the files that the schema describes."""
FILES = ("specialists/*.md", ".claude/agents/*.md")
DRAFT = "http://json-schema.org/draft-07/schema#"
"""The draft that all editors know; the schema uses nothing that later drafts added, except the name `$defs`."""


def install_schema(schema: Mapping[str, Any], project: Path) -> None:
    """Write the schema and the settings into a project, and print what was written; an existing entry is kept.

    Raises UsageError, with the lines to add, if the settings cannot be read or changed; nothing is written then.
    """
    wanted = {SCHEMA: json.dumps({**schema, "$schema": DRAFT}, ensure_ascii=False, indent=2) + "\n"}
    before = _read(project, SETTINGS)
    try:
        wanted[SETTINGS] = add_value(before or "", KEYS, list(FILES))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{SETTINGS} cannot be changed ({error}); nothing was written. Add these lines to it: {_entry()}"
        ) from None
    for name, text in wanted.items():
        old = before if name == SETTINGS else _read(project, name)
        if old == text:
            print_line(f"{name}  unchanged")
            continue
        _write(project, name, text)
        print_line(f"{name}  {'written' if old is None else 'changed'}")
    print_line(f"\n{_entry()}")
    say(
        "the YAML extension of VS Code does not check Markdown by itself: docs/specialist-files.md names tools that do",
        dim=True,
    )


def _entry() -> str:
    return json.dumps({KEYS[0]: {KEYS[1]: FILES}})[1:-1]


def _read(project: Path, name: str) -> str | None:
    """Return a text file of the project, or None if it does not exist; raises UsageError."""
    try:
        with safe_files.open_file(project / name, project) as file:
            return file.read().decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _write(project: Path, name: str, text: str) -> None:
    """Write a file of the project atomically, with the permissions of the file that it replaces; raises UsageError."""
    try:
        top, relative = safe_files.locate(project / name, project)
        path = top / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".schema-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
            mask = os.umask(0)
            os.umask(mask)
            Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink()
            raise
    except OSError as error:
        raise UsageError(f"{shown(name, None)} cannot be written: {error.strerror or error}") from None


_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_DECODER = json.JSONDecoder()


def add_value(text: str, keys: Sequence[str], value: object) -> str:
    """Return the text with a value at a path of keys; missing objects are added, and an existing value is kept.

    text: An object; blank = an empty one.
    keys: At least one.
    Raises ValueError for a text that cannot be parsed, or if a value on the path is not an object.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text.strip("\ufeff \t\r\n"):
        return text + _dumped(_nested(keys, value), "  ", "", newline) + newline
    plain = _without_comments(text)
    json.loads(plain)
    found = _INDENT.search(plain)
    indent = found[1] if found else "  "
    at = _skip(plain, 0)
    for depth, key in enumerate(keys):
        if plain[at] != "{":
            raise ValueError(f"{json.dumps(keys[depth - 1])} is not an object" if depth else "it is not an object")
        members = _members(plain, at)
        if key not in members:
            inner = _dumped(_nested(keys[depth + 1 :], value), indent, indent * (depth + 1), newline)
            return _inserted(text, plain, at, f"{json.dumps(key)}: {inner}", (indent * depth, indent), newline)
        at = members[key]
    return text


def _nested(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _dumped(value: object, indent: str, margin: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", newline + margin)


def _inserted(text: str, plain: str, at: int, entry: str, margins: tuple[str, str], newline: str) -> str:
    """Return the text with an entry at the begin of the object at `at`, below a comment on the line of its brace.

    margins: White space before the line of the object, and before an entry in addition.
    """
    margin, indent = margins
    end_of_line = plain.find("\n", at)
    below = end_of_line >= 0 and not plain[at + 1 : end_of_line].strip()
    place = end_of_line + 1 if below else at + 1
    more = plain[_skip(plain, at + 1)] != "}"
    line = f"{margin}{indent}{entry}{',' if more else ''}{newline}"
    if below:
        return f"{text[:place]}{line}{text[place:]}"
    rest = f"{margin}{indent}" if more else margin
    return f"{text[:place]}{newline}{line}{rest}{text[place:].lstrip(' ')}"


def _without_comments(text: str) -> str:
    """Return JSON of the same length, with blanks in place of comments, trailing commas and a byte order mark."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else " " * len(match[0])

    return _TRAILING_COMMA.sub(blank, _TOKEN.sub(blank, text)).replace("\ufeff", " ", 1)


def _members(plain: str, at: int) -> dict[str, int]:
    """Return the start of each value of the object at `at`, by key; of a repeated key the last one."""
    found = {}
    place = _skip(plain, at + 1)
    while plain[place] != "}":
        key, end = _DECODER.raw_decode(plain, place)
        found[key] = _skip(plain, _skip(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, found[key])
        place = _skip(plain, end)
        if plain[place] == ",":
            place = _skip(plain, place + 1)
    return found


def _skip(plain: str, place: int) -> int:
    """Return the place of the next character that is not white space."""
    while plain[place] in " \t\r\n":
        place += 1
    return place
