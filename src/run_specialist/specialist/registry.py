"""Find specialist files in the search folders, nearest first."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from run_specialist.errors import SpecialistNotFound
from run_specialist.safe_files import safe_open
from run_specialist.specialist import agent_graph
from run_specialist.specialist.defaults import Default
from run_specialist.specialist.dialects import dialect_of, is_file_name, is_toml
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
_NAME_IN_TOML = re.compile(r"""^name[ \t]*=[ \t]*["']+([^\n"']+)""", re.MULTILINE)
_HEAD = 4096


class Registry:
    """The specialists in a list of search folders; files are read once and cached until `reread`."""

    def __init__(
        self,
        places: Sequence[Path | SearchFolder],
        further: Sequence[Path | SearchFolder] = (),
        defaults: Mapping[str, Default] | None = None,
    ) -> None:
        """Set the search folders, nearest first; nothing is read yet.

        further: Folders of specialists that those in `places` may call; these are not listed.
        defaults: Settings from config files, for every specialist that is found.
        """
        self._defaults = dict(defaults or {})
        self.places = tuple(
            one if isinstance(one, SearchFolder) else SearchFolder(one, project_of(one)) for one in places
        )
        self._further = tuple(further)
        self._read_files: list[SpecialistFile] | None = None
        self._files: list[SpecialistFile] | None = None

    def files(self) -> list[SpecialistFile]:
        """Return every file, nearest first; files hidden by a nearer one of the same name have a warning."""
        if self._files is None:
            self._files = agent_graph.check(self._unlinked(), lambda: Registry(self._further)._unlinked())  # noqa: SLF001 - same class
        return self._files

    def nearest(self) -> list[SpecialistFile]:
        """Return the files without those hidden by a nearer file of the same name."""
        nearest: dict[str, SpecialistFile] = {}
        for file in self.files():
            nearest.setdefault(file.name, file)
        return list(nearest.values())

    def callable_names(self, agents: Sequence[str]) -> tuple[str, ...]:
        """Return the names of specialists that a run may call, with `*` replaced by all that models may see."""
        if "*" not in agents:
            return tuple(agents)
        seen = (one.name for one in self.nearest() if one.specialist and not one.specialist.disable_model_invocation)
        return tuple(dict.fromkeys([*(name for name in agents if name != "*"), *seen]))

    def reread(self) -> None:
        """Clear the cache, so that changed files are read again."""
        self._read_files = self._files = None

    @property
    def refused(self) -> tuple[str, ...]:
        """Reasons for not loading search folders, one line per folder."""
        return tuple(str(load_unreadable(one.path, one.refused).problems[0]) for one in self.places if one.refused)

    def find(self, name: str, asker: SpecialistFile | None = None) -> SpecialistFile:
        """Return the nearest file with this name, or the `.md` or `.toml` file at this path.

        File names without their suffix match too, if no specialist has the name.
        asker: File that refers to the name; if it belongs to a project, a path must stay inside.
        Raises SpecialistNotFound, with similar names and the folders searched.
        """
        path = Path(name)
        if is_file_name(name) and os.path.lexists(name.replace("\0", "")):
            projects = [place.project for place in self.places if place.project]
            project = (asker and asker.project) or project_of(path, projects)
            return agent_graph.check([self._load(path, project)], self._unlinked)[0]
        files = self.files()
        names = NameLookup(files)
        if found := names.find(name):
            return found
        if "/" in name or is_file_name(name):
            raise SpecialistNotFound(f"no such file: {shown(name)}")
        raise SpecialistNotFound(self._not_found(name, names.near(name), sorted({file.name for file in files})))

    def names(self) -> list[str]:
        """Return the names for shell completion, reading only the first bytes of each file."""
        names: dict[str, None] = {}
        for path, project, why in self._paths():
            if why:
                continue
            try:
                with safe_open.open_file(path, project) as file:
                    head = file.read(_HEAD).decode("utf-8", "replace")
            except OSError:
                continue
            match = (_NAME_IN_TOML if is_toml(path) else _NAME).search(head)
            names[(match[1].strip() if match else "") or stem(path)] = None
        return list(names)

    def _unlinked(self) -> list[SpecialistFile]:
        """Return every file, without the checks across files."""
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
            file = self._load(path, project)
            winner = winners.setdefault(file.name, file)
            files.append(file if winner is file else _shadowed(file, winner))
        return files

    def _load(self, path: Path, project: Path | None) -> SpecialistFile:
        return replace(load(path, project), defaults=self._defaults)

    def _paths(self) -> Iterator[tuple[Path, Path | None, str]]:
        """Yield each specialist file once, and each folder that cannot be read.

        Each comes with the project it must stay in, and the reason if it cannot be read.
        """
        seen: set[str] = set()
        for place in self.places:
            for path, why in _files_below(place):
                project = place.project or (project_of(path) if path.is_symlink() else None)
                same = identity(path, project)
                if same not in seen:
                    seen.add(same)
                    yield path, project, why

    def _not_found(self, name: str, close: list[str], names: list[str]) -> str:
        suggestion = f"; did you mean {' or '.join(map(shown, close))}?" if close else ""
        known = f"; available: {shown(', '.join(names), 300)}" if names and not close else ""
        searched = [place.path for place in self.places if not place.refused and place.path.is_dir()]
        where = ", ".join(shown(str(path), None) for path in searched) or "no existing folder"
        refused = "".join(f"; {line}" for line in self.refused)
        return f"no specialist named {shown(name)}{suggestion}{known} (searched: {where}{refused})"


def _shadowed(file: SpecialistFile, winner: SpecialistFile) -> SpecialistFile:
    text = f"hidden by a nearer file with the same name, {shown(str(winner.path), None)}"
    problem = Problem(file.path, file.lines.get("name", 1), 1, "name", text, "warning")
    return file.with_problems((*file.problems, problem))


def _files_below(place: SearchFolder) -> Iterator[tuple[Path, str]]:
    """Yield each file that the folder's dialect takes, including symlinks; unreadable folders with the reason."""
    if place.refused:
        yield place.path, place.refused
        return
    if os.path.lexists(place.path) and not place.path.is_dir():
        yield place.path, ""  # the user named this file, so it need not end in .md
        return
    dialect = dialect_of(place.path)
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
            continue  # a search folder need not exist
        except OSError as error:
            yield place.path / inner, f"cannot be listed: {error.strerror}"
            continue
        yield from (
            (place.path / inner / name, "") for name, is_folder in entries if not is_folder and dialect.takes(name)
        )
        folders = [name for name, is_folder in entries if is_folder and dialect.nested and not name.startswith(".")]
        waiting += [f"{inner}/{name}" if inner else name for name in reversed(folders)]
