"""The command `specialists edit`: open a specialist file in the editor, after copying one that must not be changed."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from run_specialist.cli.console import fail, say
from run_specialist.cli.editor import chosen_editor, edit_file
from run_specialist.errors import UsageError
from run_specialist.safe_files import safe_open
from run_specialist.specialist.problems import shown

if TYPE_CHECKING:
    from run_specialist.specialist.loader import SpecialistFile


def edit_specialist(file: "SpecialistFile", project: Path, *, copy: bool | None) -> Path:
    """Let the user edit a specialist file, or a copy of it in the project; return the path of the edited file.

    copy: Whether to copy a file that must not be changed; None = ask on a terminal.
    Raises UsageError if there is no editor, if it fails, or if the file cannot be read or copied.
    """
    if not file.digest:
        raise UsageError(str(file.problems[0]))
    command = chosen_editor(file.path)
    why = _reason_to_copy(file)
    path = _copied(file, project, why, copy=copy) if why else file.path
    before = _content(path)
    try:
        edit_file(path.absolute(), command)
    except UsageError as error:
        if path == file.path or _content(path) != before:
            raise UsageError(f"{error}; the file is {shown(str(path), None)}") from None
        # An unedited copy would only hide the original.
        path.unlink(missing_ok=True)
        raise
    if _content(path) == before:
        say(
            "the file was not changed; if the editor is still open, use a command that waits, such as `code --wait`",
            dim=True,
        )
    return path


def _reason_to_copy(file: "SpecialistFile") -> str:
    """Return why a file must not be changed, or an empty text."""
    from run_specialist.specialist.registry import packaged  # noqa: PLC0415 - fast `--help`

    if file.project is None and file.path.resolve().is_relative_to(packaged().resolve()):
        return "is included in this package"
    return "" if os.access(file.path, os.W_OK) else "cannot be written"


def _copied(file: "SpecialistFile", project: Path, why: str, *, copy: bool | None) -> Path:
    """Copy a file into the project, if the user agrees, and return the path of the copy."""
    from run_specialist.specialist.dialects import CODEX, OWN, is_toml  # noqa: PLC0415 - fast `--help`

    # Each kind of file is found in other folders of a project.
    folder = CODEX.project[0] if is_toml(file.path) else OWN.project[0]
    target = project / folder / file.path.name
    told = target.relative_to(Path.cwd()) if target.is_relative_to(Path.cwd()) else target
    if copy is None and sys.stdin is not None and sys.stdin.isatty():
        if not typer.confirm(f"{file.name} {why}. Edit a copy, {told}?", default=True, err=True):
            fail("nothing was opened", 0)
        copy = True
    if not copy:
        fail(f"{file.path} {why}; use --copy to edit a copy, {told}")
    try:
        with safe_open.open_file(file.path, file.project) as source:
            content = source.read()
        top, relative = safe_open.locate(target.parent, project)
        (top / relative).mkdir(parents=True, exist_ok=True)
        with safe_open.create_file(target, project, overwrite=False) as written:
            written.write(content)
    except FileExistsError:
        raise UsageError(f"{told} already exists; edit it by its path") from None
    except OSError as error:
        raise UsageError(f"{told} cannot be written: {error.strerror}") from None
    return target


def _content(path: Path) -> bytes | None:
    """Return the content of a file, or None if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None
