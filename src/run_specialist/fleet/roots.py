"""The folders of this host, by the names that batches use for them."""

from collections.abc import Sequence
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.fleet.frozen_batch import root_name
from run_specialist.specialist.project import project_root


def roots_of(given: Sequence[str], start: Path) -> dict[str, Path]:
    """Return folders by name: those given as `NAME=PATH`, otherwise the project of a folder, under its own name.

    Raises UsageError for another form, a duplicate name, and a path that is not a folder.
    """
    if not given:
        project = project_root(start)
        return {root_name(project): project}
    roots: dict[str, Path] = {}
    for one in given:
        name, sign, path = one.partition("=")
        if not name or not sign or not path:
            raise UsageError(f"--root: got {one!r}; use NAME=PATH")
        if name in roots:
            raise UsageError(f"--root: {name} is given twice")
        folder = Path(path).expanduser().absolute()
        if not folder.is_dir():
            raise UsageError(f"--root: {name}={path} is not a folder")
        roots[name] = folder
    return roots
