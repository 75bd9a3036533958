"""Install the schema of the front matter for editors: a file with the schema, and an entry in VS Code's settings."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_specialist.cli.console import print_line, say
from run_specialist.cli.json_with_comments import add_value
from run_specialist.errors import UsageError
from run_specialist.safe_files import safe_open
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
        with safe_open.open_file(project / name, project) as file:
            return file.read().decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _write(project: Path, name: str, text: str) -> None:
    """Write a file of the project atomically, with the permissions of the file that it replaces; raises UsageError."""
    try:
        top, relative = safe_open.locate(project / name, project)
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
