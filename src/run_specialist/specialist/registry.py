"""Find specialists: the places that are searched, near ones first."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from run_specialist import safe_open
from run_specialist.errors import SpecialistNotFound
from run_specialist.specialist import agent_graph
from run_specialist.specialist.loader import SpecialistFile, load, load_unreadable, stem
from run_specialist.specialist.lookup import NameLookup
from run_specialist.specialist.problems import Problem, shown
from run_specialist.specialist.project import (
    SearchFolder,
    identity,
    is_same,
    packaged,
    places,
    project_of,
    project_places,
    project_root,
)

__all__ = [
    "Registry",
    "SearchFolder",
    "SpecialistFile",
    "is_same",
    "packaged",
    "places",
    "project_of",
    "project_places",
    "project_root",
]

_NAME = re.compile(r"""^[ \t]*["']?name["']?[ \t]*:[ \t]*["']?([^\n"'#]+)""", re.MULTILINE)
_HEAD = 4096


class Registry:
    """The specialists in some places, each read once until `reread`."""

    def __init__(self, places: Sequence[Path | SearchFolder], further: Sequence[Path | SearchFolder] = ()) -> None:
        """Take the places, near ones first; nothing is read yet.

        further: where those are that may be asked by the specialists in `places`; nothing in there is listed.
        """
        self.places = tuple(
            one if isinstance(one, SearchFolder) else SearchFolder(one, project_of(one)) for one in places
        )
        self._further = tuple(further)
        self._read_files: list[SpecialistFile] | None = None
        self._files: list[SpecialistFile] | None = None

    def files(self) -> list[SpecialistFile]:
        """Return every file, near ones first; one that a nearer file hides says so in a warning."""
        if self._files is None:
            self._files = agent_graph.check(self._each_alone(), lambda: Registry(self._further)._each_alone())  # noqa: SLF001 - our own
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

    @property
    def refused(self) -> tuple[str, ...]:
        """Why nothing is loaded from some of the places, a line for each."""
        return tuple(str(load_unreadable(one.path, one.refused).problems[0]) for one in self.places if one.refused)

    def find(self, name: str, asker: SpecialistFile | None = None) -> SpecialistFile:
        """Return the nearest file of that name, or the `.md` file at that path.

        The file's own stem is taken too where no specialist has that name.
        asker: the file that gives the name; one of a project leads to no path outside of it.
        Raises SpecialistNotFound, which tells near names and the places searched.
        """
        path = Path(name)
        if name.lower().endswith(".md") and os.path.lexists(name.replace("\0", "")):
            projects = [place.project for place in self.places if place.project]
            project = (asker and asker.project) or project_of(path, projects)
            return agent_graph.check([load(path, project)], self._each_alone)[0]
        files = self.files()
        names = NameLookup(files)
        if found := names.find(name):
            return found
        if "/" in name or name.lower().endswith(".md"):
            raise SpecialistNotFound(f"there is no file {shown(name)}")
        raise SpecialistNotFound(self._not_found(name, names.near(name), sorted({file.name for file in files})))

    def names(self) -> list[str]:
        """Return the names, read from the head of each file alone: near enough for completion."""
        names: dict[str, None] = {}
        for path, project, why in self._paths():
            if why:
                continue
            try:
                with safe_open.open_file(path, project) as file:
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
        for path, project, why in self._paths():
            if why:
                files.append(load_unreadable(path, why))
                continue
            file = load(path, project)
            winner = winners.setdefault(file.name, file)
            files.append(file if winner is file else _shadowed(file, winner))
        return files

    def _paths(self) -> Iterator[tuple[Path, Path | None, str]]:
        """Yield each `.md` file once, however many places lead to it, and each folder that cannot be read.

        Each with the project that it must not leave, and why it cannot be read.
        """
        seen: set[str] = set()
        for place in self.places:
            for path, why in _markdown_below(place):
                project = place.project or (project_of(path) if path.is_symlink() else None)
                same = identity(path, project)
                if same not in seen:
                    seen.add(same)
                    yield path, project, why

    def _not_found(self, name: str, close: list[str], names: list[str]) -> str:
        meant = f"; did you mean {' or '.join(map(shown, close))}?" if close else ""
        known = f"; there are: {shown(', '.join(names), 300)}" if names and not close else ""
        searched = [place.path for place in self.places if not place.refused and place.path.is_dir()]
        where = ", ".join(shown(str(path), None) for path in searched) or "no folder that exists"
        refused = "".join(f"; {line}" for line in self.refused)
        return f"no specialist is called {shown(name)}{meant}{known} (searched: {where}{refused})"


def _shadowed(file: SpecialistFile, winner: SpecialistFile) -> SpecialistFile:
    text = f"hidden by the nearer file of this name, {shown(str(winner.path), None)}"
    problem = Problem(file.path, file.lines.get("name", 1), 1, "name", text, "warning")
    return file.with_problems((*file.problems, problem))


def _markdown_below(place: SearchFolder) -> Iterator[tuple[Path, str]]:
    """Yield each `.md` file of a place, links among them, and each folder that cannot be listed with the reason."""
    if place.refused:
        yield place.path, place.refused
        return
    if os.path.lexists(place.path) and not place.path.is_dir():
        yield place.path, ""  # named on purpose, whatever its name
        return
    try:
        top, start = safe_open.locate(place.path, place.project)
    except OSError as error:
        yield place.path, f"cannot be listed: {error.strerror}"
        return
    if place.project is None:
        top, start = top / start, ""
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        try:
            with safe_open.folder(top, "/".join(filter(None, (start, inner)))) as here, here.listing() as found:
                entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
        except FileNotFoundError:
            continue  # a place need not exist
        except OSError as error:
            yield place.path / inner, f"cannot be listed: {error.strerror}"
            continue
        yield from (
            (place.path / inner / name, "")
            for name, is_folder in entries
            if not is_folder and name.lower().endswith(".md")
        )
        folders = [name for name, is_folder in entries if is_folder and not name.startswith(".")]
        waiting += [f"{inner}/{name}" if inner else name for name in reversed(folders)]
