"""Find the root of the project and the folders with specialists; check who owns a file."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.safety import safe_files
from run_specialist.specialist.dialects import DIALECTS, config_folder, user_folders
from run_specialist.specialist.problems import shown

_PACKAGE = Path(__file__).resolve().parents[1]
# Maximum number of symlinks to follow in a row; Linux has the same limit.
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class SearchFolder:
    """A folder to search for specialists, or a single file."""

    path: Path
    project: Path | None = None
    """Project that symlinks must not lead out of; None to follow all symlinks."""
    refused: str = ""
    """Reason for loading nothing from it; empty if it may be searched."""

    @classmethod
    def at(cls, path: Path, project: Path) -> "SearchFolder":
        """Return the search folder for a path that the user named, within a project."""
        return cls(path, project_of(path, [project]))


def project_root(start: Path, meant: Path | None = None) -> Path:
    """Return the nearest folder at or above `start` that contains `.git`, or `start` itself.

    meant: Folder that the user named; it is accepted even if it belongs to another user.
    """
    folder = Path(os.path.abspath(start))  # noqa: PTH100, resolve() would leave the tree through a symlink
    top = git_folder(folder)
    return top if top is not None and (is_same(top, meant) or ownership_problem(top) is None) else folder


def project_path(root: Path) -> str:
    """Return the real path of the project that contains a root folder, as stored runs name it.

    That is `project_root` of the folder, which the user named; a folder that no longer exists stays as it is.
    """
    return os.path.realpath(project_root(root, root) if os.path.isdir(root) else root)  # noqa: PTH112, raises for no folder


def git_folder(start: Path) -> Path | None:
    """Return the nearest folder at or above `start` that contains `.git`, regardless of its owner."""
    return next((place for place in (start, *start.parents) if os.path.exists(place / ".git")), None)  # noqa: PTH110, raises for no folder


def result_path(path: Path) -> Path:
    """Return the real path of a file of results that the user named; the file need not exist.

    Symlinks of a project must not lead out of it, nor into its `.git`: the project of the current folder, and each one
    that the path itself goes through. A path outside of projects, and the links on it, are the user's own choice.
    Raises OutsideRoot.
    """
    named = Path(os.path.abspath(path))  # noqa: PTH100, as above
    current = os.path.realpath(project_root(Path.cwd()))
    for above in named.parents:
        top = os.path.realpath(above)
        if top != current and not os.path.lexists(above / ".git"):
            continue
        inside = named.relative_to(above)
        if (real := os.path.realpath(named)) == os.path.join(top, inside):  # noqa: PTH118, as above
            continue
        try:
            safe_files.locate(named, above)
        except OSError:
            raise safe_files.OutsideRoot(
                f"a link of the project leads to {real}; name that file if you mean it"
            ) from None
    return Path(os.path.realpath(named))


def project_of(path: Path, known: Collection[Path] = ()) -> Path | None:
    """Return the project that contains a path; None outside of projects and in the user's own search folders.

    A symlink in one of the user's folders belongs to the project of its target.
    known: Folders that count as projects even without `.git`.
    """
    tops = {os.path.realpath(one) for one in known}
    # Where a link cannot be read, no file can be opened either.
    with suppress(OSError, ValueError):
        for _ in range(_MOST_LINKS):
            path = Path(os.path.abspath(path))  # noqa: PTH100, as above
            above = () if is_own(path) else (path, *path.parents)
            for folder in above:
                if os.path.realpath(folder) in tops or os.path.exists(folder / ".git"):  # noqa: PTH110, as above
                    return folder
            real = Path(os.path.realpath(path.parent), path.name)
            if real == path and not os.path.islink(path):  # noqa: PTH114, as above
                return None
            path = real if real != path else real.parent / os.readlink(path)  # noqa: PTH115, as above
    return None


def project_places(project: Path, dir: Path | None = None, *, meant: bool = False) -> tuple[SearchFolder, ...]:  # noqa: A002, the flag's name
    """Return the search folders of a project, nearest first; they need not exist.

    meant: Whether the user named the project, which may then belong to another user.
    Raises UsageError if `dir` is given and is not a folder.
    """
    if dir is not None and not dir.is_dir():
        raise UsageError(f"{shown(str(dir), None)} is not a folder")
    near = [] if dir is None else [SearchFolder.at(dir, project)]
    places = [*near, *_inside(project, project, meant=meant)]
    # The search folders refused because their project belongs to another user.
    top = git_folder(project)
    if top is not None and top != project and not meant:
        places += [place for place in _inside(top, top, meant=False) if place.refused]
    return _unique(places)


def places(project: Path, dir: Path | None = None, *, meant: bool = False) -> tuple[SearchFolder, ...]:  # noqa: A002, the flag's name
    """Return all search folders: those of the project, of the user, and of this package.

    meant: Same as for `project_places`.
    Raises UsageError if `dir` is given and is not a folder.
    """
    return _unique([*project_places(project, dir, meant=meant), *(SearchFolder(path) for path in _own_places())])


def is_same(folder: Path, other: Path | None) -> bool:
    """Return whether two paths resolve to the same folder."""
    return other is not None and os.path.realpath(folder) == os.path.realpath(other)


def packaged() -> Path:
    """Return the folder of the specialists included in this package, or in a checkout of it."""
    inside = _PACKAGE / "specialists"
    return inside if inside.is_dir() else _PACKAGE.parents[1] / "specialists"


def is_packaged(path: Path) -> bool:
    """Return whether a file is included in this package, and must therefore not be changed."""
    return path.resolve().is_relative_to(packaged().resolve())


def _inside(top: Path, project: Path, *, meant: bool) -> Iterator[SearchFolder]:
    for path in (top / folder for dialect in DIALECTS for folder in dialect.project):
        owner = None if meant or not os.path.lexists(path) else ownership_problem(top, path.parent, path)
        name = shown(str(top), None)
        advice = f"its files are not loaded; if you trust it, use `root={name}`, or set {VARIABLE}={name}"
        yield SearchFolder(path, project, "" if owner is None else f"{owner}; {advice}")


def user_folder() -> Path:
    """Return the folder with the user's specialists and config file; not absolute if there is no home folder."""
    return config_folder() / "run-specialist"


def _own_places() -> list[Path]:
    """Return the search folders of the user and of this package."""
    own = [*user_folders(), packaged()]
    return [path for path in own if path.is_absolute()]


def is_own(path: Path) -> bool:
    """Return whether a path is in one of the folders of the user or of this package, following no link."""
    own = [place for path in _own_places() for place in (path, os.path.realpath(path))]
    return any(path.is_relative_to(place) for place in own)


def _unique(places: Sequence[SearchFolder]) -> tuple[SearchFolder, ...]:
    """Return the folders without duplicates, keeping the nearest of each."""
    unique: dict[tuple[str, bool], SearchFolder] = {}
    for place in places:
        # A refused entry must not hide the same folder listed as the user's own or as part of the package.
        unique.setdefault((identity(place.path, place.project), bool(place.refused)), place)
    return tuple(unique.values())


def identity(path: Path, project: Path | None) -> str:
    """Return a key that is equal for all paths of one file; a path that leads out of its project gets a unique key."""
    try:
        real = os.path.realpath(path)
    except OSError:  # the symlink was replaced meanwhile
        real = ""
    if not real or (project is not None and not Path(real).is_relative_to(os.path.realpath(project))):
        return os.path.abspath(path)  # noqa: PTH100, as above
    return real


VARIABLE = "SPECIALIST_SAFE_DIRECTORY"
"""Environment variable with folders that may belong to any user, separated as in PATH; `*` means every folder."""

# User id of root, who can change every file anyway and so counts as a trusted owner.
_ROOT = 0


def ownership_problem(top: Path, *inside: Path) -> str | None:
    """Return a sentence naming the first path that belongs to another user, or None.

    Checks the folder, its `.git` and the paths inside, both symlinks and their targets.
    Source: https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory
    """
    listed = [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    if "*" in listed or os.path.realpath(top) in map(os.path.realpath, listed):
        return None
    # Trusted are root, the current user and, under sudo, the user who called it.
    users = {_ROOT, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == _ROOT and caller.isdecimal():
        users.add(int(caller))
    for path in (top, top / ".git", *inside):
        for follow in (False, True):
            with suppress(OSError):
                owner = os.stat(path, follow_symlinks=follow).st_uid  # noqa: PTH116, Path.stat raises ValueError on a NUL in some versions only
                if owner not in users:
                    return f"{path} belongs to another user (uid {owner})"
    return None
