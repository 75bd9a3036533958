"""The project that a folder belongs to, and the folders where specialist files are looked for."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.specialist.ownership import VARIABLE, stranger
from run_specialist.specialist.problems import shown

_PACKAGE = Path(__file__).resolve().parents[1]
_MOST_LINKS = 40
"""Links in a row that Linux follows, too."""


@dataclass(frozen=True, slots=True)
class SearchFolder:
    """A folder, or a file, where specialists are looked for."""

    path: Path
    project: Path | None = None
    """The project whose files must not lead out of it; None where the user answers for all links."""
    refused: str = ""
    """Why nothing is loaded from it; empty where files are."""

    @classmethod
    def at(cls, path: Path, project: Path) -> "SearchFolder":
        """Return the place of a path that the user named, seen from a project."""
        return cls(path, project_of(path, [project]))


def project_root(start: Path, meant: Path | None = None) -> Path:
    """Return the nearest folder at or above `start` that holds a `.git`, else `start` itself.

    A folder of another user is not taken, unless it is the one that is `meant`.
    """
    folder = Path(os.path.abspath(start))  # noqa: PTH100, resolve() would leave the tree through a symlink
    top = git_folder(folder)
    if top is None or not (is_same(top, meant) or stranger(top) is None):
        return folder
    return top


def git_folder(start: Path) -> Path | None:
    """Return the nearest folder at or above `start` that holds a `.git`, whoever owns it."""
    return next((place for place in (start, *start.parents) if os.path.exists(place / ".git")), None)  # noqa: PTH110, raises for no folder


def project_of(path: Path, known: Collection[Path] = ()) -> Path | None:
    """Return the project that a path lies in; None for the user's own places, and outside of every project.

    A link of the user's own counts as what it leads to.
    known: projects, with a `.git` or without.
    """
    tops = {os.path.realpath(one) for one in known}
    try:
        for _ in range(_MOST_LINKS):
            path = Path(os.path.abspath(path))  # noqa: PTH100, as above
            above = () if _is_own(path) else (path, *path.parents)
            for folder in above:
                if os.path.realpath(folder) in tops or os.path.exists(folder / ".git"):  # noqa: PTH110, as above
                    return folder
            real = Path(os.path.realpath(path.parent), path.name)
            if real == path and not os.path.islink(path):  # noqa: PTH114, as above
                return None
            path = real if real != path else real.parent / os.readlink(path)  # noqa: PTH115, as above
    except (OSError, ValueError):
        # Nothing can be opened there.
        return None
    return None


def project_places(project: Path, dir: Path | None = None, *, meant: bool = False) -> tuple[SearchFolder, ...]:  # noqa: A002, the flag's name
    """Return the folders of a project, near ones first; they need not exist.

    meant: the user named the project, so that it may belong to somebody else.
    Raises UsageError when `dir` is given and is no folder.
    """
    if dir is not None and not dir.is_dir():
        raise UsageError(f"{shown(str(dir), None)} is no folder")
    near = [] if dir is None else [SearchFolder.at(dir, project)]
    return _unique([*near, *_inside(project, project, meant=meant), *_not_taken(project, meant=meant)])


def places(project: Path, dir: Path | None = None, *, meant: bool = False) -> tuple[SearchFolder, ...]:  # noqa: A002, the flag's name
    """Return the folders that are searched: those of the project, the user's, those that come along.

    meant: as for `project_places`.
    Raises UsageError when `dir` is given and is no folder.
    """
    return _unique([*project_places(project, dir, meant=meant), *(SearchFolder(path) for path in _own_places())])


def is_same(folder: Path, other: Path | None) -> bool:
    """Tell whether two paths lead to the same folder."""
    return other is not None and os.path.realpath(folder) == os.path.realpath(other)


def packaged() -> Path:
    """Return the folder of the specialists that come with this package, or with a checkout of it."""
    inside = _PACKAGE / "specialists"
    return inside if inside.is_dir() else _PACKAGE.parents[1] / "specialists"


def _inside(top: Path, project: Path, *, meant: bool) -> Iterator[SearchFolder]:
    for path in (top / "specialists", top / ".claude" / "agents"):
        owner = None if meant or not os.path.lexists(path) else stranger(top, path.parent, path)
        yield SearchFolder(path, project, "" if owner is None else f"{owner}; {_way_out(top)}")


def _not_taken(project: Path, *, meant: bool) -> Iterator[SearchFolder]:
    """Yield the places of the folder that would be the project if it were not somebody else's."""
    top = git_folder(project)
    if top is not None and top != project and not meant:
        yield from (place for place in _inside(top, top, meant=False) if place.refused)


def _way_out(top: Path) -> str:
    name = shown(str(top), None)
    return f"no file in it is loaded; if you trust it, use --root {name}, or set {VARIABLE}={name}"


def _own_places() -> list[Path]:
    """Return the folders of the user and of this program."""
    config = _home(os.environ.get("XDG_CONFIG_HOME", ""))
    # A relative one would lie in whatever project we are in, and the files there would need no trust.
    own = [
        (config if config.is_absolute() else _home("~/.config")) / "run-specialist" / "specialists",
        _home("~/.claude/agents"),
        packaged(),
    ]
    return [path for path in own if path.is_absolute()]


def _is_own(path: Path) -> bool:
    own = [place for path in _own_places() for place in (path, os.path.realpath(path))]
    return any(path.is_relative_to(place) for place in own)


def _home(path: str) -> Path:
    # Path.expanduser raises where there is no home; a place that cannot exist is enough.
    return Path(os.path.expanduser(path))  # noqa: PTH111


def _unique(places: Sequence[SearchFolder]) -> tuple[SearchFolder, ...]:
    """Return each folder once, in the nearest place that leads there."""
    unique: dict[tuple[str, bool], SearchFolder] = {}
    for place in places:
        # A refused one must not stand in for the user's own, or for the one that comes along, where that is the same.
        unique.setdefault((identity(place.path, place.project), bool(place.refused)), place)
    return tuple(unique.values())


def identity(path: Path, project: Path | None) -> str:
    """Return what is the same for all paths of one file; a path that leaves its project stands for itself alone."""
    try:
        real = os.path.realpath(path)
    except OSError:  # a link that was swapped for something else meanwhile
        real = ""
    if not real or (project is not None and not Path(real).is_relative_to(os.path.realpath(project))):
        return os.path.abspath(path)  # noqa: PTH100, as above
    return real
