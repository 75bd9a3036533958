"""Locate the root folder and the specialist files of a runner."""

from pathlib import Path

from run_specialist.specialist.defaults import NO_DEFAULTS, Defaults
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.registry import Registry, is_same, places, project_root


def find_project(
    root: Path | str | None,
    dir: Path | str | None,  # noqa: A002 - the flag's name
    defaults: Defaults = NO_DEFAULTS,
) -> tuple[Path, Registry]:
    """Return the root folder of the file tools, and the registry of the project's specialists.

    root: the root folder; None for the root of the project that contains the current folder.
    dir: a folder to search before the default folders.
    defaults: settings for specialists whose files do not contain them.
    Raises UsageError if `dir` is not a folder.
    """
    given_root = None if root is None else Path(root).absolute()
    project = project_root(Path.cwd(), given_root)
    first = None if dir is None else Path(dir)
    found = places(project, first, meant=is_same(project, given_root))
    return given_root or project, Registry(found, defaults=defaults.settings)


def file_of(specialist: Specialist) -> SpecialistFile:
    """Return a specialist that was created in Python as a file, which need not exist."""
    path = specialist.path or Path(f"<{specialist.name}>")
    return SpecialistFile(path, specialist.name, specialist.description, specialist=specialist, given_origin="caller")
