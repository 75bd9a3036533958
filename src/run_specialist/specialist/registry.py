"""Find specialists: the places that are searched, near ones first."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from run_specialist.errors import SpecialistNotFound, UsageError
from run_specialist.specialist import family
from run_specialist.specialist.loader import SpecialistFile, load, load_unreadable, stem
from run_specialist.specialist.names import Names
from run_specialist.specialist.problems import Problem, shown

__all__ = ["Registry", "SpecialistFile", "packaged", "places", "project_places", "project_root"]

_PACKAGE = Path(__file__).resolve().parents[1]
_NAME = re.compile(r"""^[ \t]*["']?name["']?[ \t]*:[ \t]*["']?([^\n"'#]+)""", re.MULTILINE)
_HEAD = 4096


def project_root(start: Path) -> Path:
    """Return the nearest folder at or above `start` that holds a `.git`, else `start` itself."""
    folder = Path(os.path.abspath(start))  # noqa: PTH100, resolve() would leave the tree through a symlink
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)


def project_places(project_root: Path, dir: Path | None = None) -> tuple[Path, ...]:  # noqa: A002, the flag's name
    """Return the folders of a project, near ones first; they need not exist.

    Raises UsageError when `dir` is given and is no folder.
    """
    if dir is not None and not dir.is_dir():
        raise UsageError(f"{shown(str(dir), None)} is no folder")
    near = [dir] if dir is not None else []
    return _unique([*near, project_root / "specialists", project_root / ".claude" / "agents"])


def places(project_root: Path, dir: Path | None = None) -> tuple[Path, ...]:  # noqa: A002, the flag's name
    """Return the folders that are searched: those of the project, the user's, those that come along.

    Raises UsageError when `dir` is given and is no folder.
    """
    config = _home(os.environ.get("XDG_CONFIG_HOME", ""))
    # A relative one would lie in whatever project we are in, and the files there would need no trust.
    far = [
        (config if config.is_absolute() else _home("~/.config")) / "run-specialist" / "specialists",
        _home("~/.claude/agents"),
        packaged(),
    ]
    return _unique([*project_places(project_root, dir), *(place for place in far if place.is_absolute())])


def packaged() -> Path:
    """Return the folder of the specialists that come with this package, or with a checkout of it."""
    inside = _PACKAGE / "specialists"
    return inside if inside.is_dir() else _PACKAGE.parents[1] / "specialists"


class Registry:
    """The specialists in some places, each read once until `reread`."""

    def __init__(self, places: Sequence[Path], further: Sequence[Path] = ()) -> None:
        """Take the places, near ones first; nothing is read yet.

        further: where those are that may be asked by the specialists in `places`; nothing in there is listed.
        """
        self.places = tuple(places)
        self._further = tuple(further)
        self._read_files: list[SpecialistFile] | None = None
        self._files: list[SpecialistFile] | None = None

    def files(self) -> list[SpecialistFile]:
        """Return every file, near ones first; one that a nearer file hides says so in a warning."""
        if self._files is None:
            self._files = family.check(self._each_alone(), lambda: Registry(self._further)._each_alone())  # noqa: SLF001 - our own
        return self._files

    def nearest(self) -> list[SpecialistFile]:
        """Return the files that a name leads to: without those that a nearer one of the same name hides."""
        nearest: dict[str, SpecialistFile] = {}
        for file in self.files():
            nearest.setdefault(file.name, file)
        return list(nearest.values())

    def reread(self) -> None:
        """Forget what was read: files may have changed since."""
        self._read_files = self._files = None

    def find(self, name: str) -> SpecialistFile:
        """Return the nearest file of that name, or the `.md` file at that path.

        The file's own stem is taken too where no specialist has that name.
        Raises SpecialistNotFound, which tells near names and the places searched.
        """
        path = Path(name)
        if name.lower().endswith(".md") and os.path.lexists(name.replace("\0", "")):
            return family.check([load(path)], self._each_alone)[0]
        files = self.files()
        names = Names(files)
        if found := names.find(name):
            return found
        if "/" in name or name.lower().endswith(".md"):
            raise SpecialistNotFound(f"there is no file {shown(name)}")
        raise SpecialistNotFound(self._not_found(name, names.near(name), sorted({file.name for file in files})))

    def names(self) -> list[str]:
        """Return the names, read from the head of each file alone: near enough for completion."""
        names: dict[str, None] = {}
        for path in self._paths():
            if isinstance(path, OSError) or not path.is_file():
                continue
            try:
                with path.open("rb") as file:
                    head = file.read(_HEAD).decode("utf-8", "replace")
            except OSError:
                continue
            match = _NAME.search(head)
            names[(match[1].strip() if match else "") or stem(path)] = None
        return list(names)

    def _each_alone(self) -> list[SpecialistFile]:
        """Return every file, with what is wrong with it by itself."""
        if self._read_files is None:
            self._read_files = self._read()
        return self._read_files

    def _read(self) -> list[SpecialistFile]:
        files: list[SpecialistFile] = []
        winners: dict[str, SpecialistFile] = {}
        for path in self._paths():
            if isinstance(path, OSError):
                files.append(load_unreadable(Path(path.filename or "."), f"cannot be listed: {path.strerror}"))
                continue
            file = load(path)
            winner = winners.setdefault(file.name, file)
            files.append(file if winner is file else _shadowed(file, winner))
        return files

    def _paths(self) -> Iterator[Path | OSError]:
        """Yield each `.md` file once, however many places lead to it, and each folder that cannot be read."""
        seen: set[str] = set()
        for place in self.places:
            for path in _markdown_below(place):
                real = path if isinstance(path, OSError) else os.path.realpath(path)
                if str(real) not in seen:
                    seen.add(str(real))
                    yield path

    def _not_found(self, name: str, close: list[str], names: list[str]) -> str:
        meant = f"; did you mean {' or '.join(map(shown, close))}?" if close else ""
        known = f"; there are: {shown(', '.join(names), 300)}" if names and not close else ""
        searched = ", ".join(shown(str(place), None) for place in self.places if place.is_dir())
        return f"no specialist is called {shown(name)}{meant}{known} (searched: {searched or 'no folder that exists'})"


def _shadowed(file: SpecialistFile, winner: SpecialistFile) -> SpecialistFile:
    text = f"hidden by the nearer file of this name, {shown(str(winner.path), None)}"
    problem = Problem(file.path, file.lines.get("name", 1), 1, "name", text, "warning")
    return file.with_problems((*file.problems, problem))


def _markdown_below(place: Path) -> Iterator[Path | OSError]:
    if os.path.lexists(place) and not place.is_dir():
        yield place  # named on purpose, whatever its name
        return
    errors: list[OSError] = []
    for folder, folders, names in os.walk(place, onerror=errors.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if name.lower().endswith(".md"))
    # A place need not exist.
    yield from (error for error in errors if not isinstance(error, FileNotFoundError))


def _home(path: str) -> Path:
    # Path.expanduser raises where there is no home; a place that cannot exist is enough.
    return Path(os.path.expanduser(path))  # noqa: PTH111


def _unique(places: Sequence[Path]) -> tuple[Path, ...]:
    unique: dict[str, Path] = {}
    for place in places:
        unique.setdefault(os.path.realpath(place), place)
    return tuple(unique.values())
