"""All specialist files in the search folders, found by name; the graph of those that call each other."""

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from run_specialist.errors import SpecialistNotFound
from run_specialist.safety import safe_files
from run_specialist.specialist.dialects import dialect_of, is_file_name, is_path
from run_specialist.specialist.loader import Default, SpecialistFile, load, load_unreadable, stem
from run_specialist.specialist.problems import Level, Problem, shown
from run_specialist.specialist.project import SearchFolder, identity, project_of


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
            self._files = check(self._unlinked(), lambda: Registry(self._further)._unlinked())  # noqa: SLF001 - same class
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
            return check([replace(load(path, project), defaults=self._defaults)], self._unlinked)[0]
        names = NameLookup(self.files())
        if found := names.find(name):
            return found
        if is_path(name):
            raise SpecialistNotFound(f"no such file: {shown(name)}")
        close, known = names.near(name), sorted({file.name for file in self.files()})
        hint = f"; available: {shown(', '.join(known), 300)}" if known else ""
        hint = f"; did you mean {_or(close)}?" if close else hint
        searched = [place.path for place in self.places if not place.refused and place.path.is_dir()]
        where = ", ".join(shown(str(path), None) for path in searched) or "no existing folder"
        refused = "".join(f"; {line}" for line in self.refused)
        raise SpecialistNotFound(f"no specialist named {shown(name)}{hint} (searched: {where}{refused})")

    def _unlinked(self) -> list[SpecialistFile]:
        """Return every file, without the checks across files."""
        if self._read_files is not None:
            return self._read_files
        files: list[SpecialistFile] = []
        winners: dict[str, SpecialistFile] = {}
        for path, project, why in self._paths():
            if why:
                files.append(load_unreadable(path, why))
                continue
            file = replace(load(path, project), defaults=self._defaults)
            winner = winners.setdefault(file.name, file)
            if winner is not file:
                text = f"hidden by a nearer file with the same name, {shown(str(winner.path), None)}"
                problem = Problem(file.path, file.lines.get("name", 1), 1, "name", text, "warning")
                file = file.with_problems((*file.problems, problem))
            files.append(file)
        self._read_files = files
        return files

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
        top, start = safe_files.locate(place.path, place.project)
    except OSError as error:
        yield place.path, f"cannot be listed: {error.strerror}"
        return
    if place.project is None:
        top, start = top / start, ""
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        try:
            with safe_files.folder(top, "/".join(filter(None, (start, inner)))) as here, here.listing() as found:
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


# Check the graph of specialists that call each other: every name under `agents` must exist, without cycles.
#
# Runs in time linear in the files and the names they list, once for each separate cycle.

MAX_REPORTED = 10
"""Maximum number of bad names reported one by one per file; the rest are counted."""
# Maximum number of unknown names for which similar names are searched.
_MOST_SUGGESTED = 20
_LONGEST = 300


def check(
    files: Sequence[SpecialistFile], further: Callable[[], Sequence[SpecialistFile]] = tuple
) -> list[SpecialistFile]:
    """Return the files with the problems of their `agents` added; a file in a cycle gets an error.

    files: nearest first.
    further: Returns more files that may be called; called only if a file lists agents.
    """
    if not any(_listed(file) for file in files):
        return [*files]
    everyone = (*files, *further())
    names = NameLookup(everyone)
    by_path = {file.path: file for file in reversed(everyone)}
    unknown: set[str] = set()

    def find(name: str, caller: SpecialistFile) -> SpecialistFile | None:
        if not is_file_name(name) or not os.path.lexists(name.replace("\0", "")):
            return names.find(name)
        if (path := Path(name)) not in by_path:
            by_path[path] = load(path, caller.project or project_of(path))
        return by_path[path]

    # A run leaves out the specialists above it, so that others may call each other.
    callers = [file for file in by_path.values() if _listed(file) and not file.may_circle]
    edges = {file.path: [one.path for name in _listed(file) if (one := find(name, file))] for file in callers}
    cycles = _cycles(edges)
    unusable = {path for path, file in by_path.items() if file.specialist is None or path in cycles}

    def complaint(name: str, caller: SpecialistFile) -> str:
        if (file := find(name, caller)) is None:
            unknown.add(name)
            near = names.near(name, 0.7) if len(unknown) <= _MOST_SUGGESTED else []
            return f"no specialist named {shown(name)}{f'; did you mean {_or(near)}?' if near else ''}"
        # An error already names the other members of a cycle.
        if file.path not in unusable or file.path in cycles.get(caller.path, ()):
            return ""
        first = next((str(problem) for problem in file.problems if problem.level == "error"), None)
        return f"{shown(name)} cannot be run: {first or 'it is part of a cycle'}"

    checked = []
    for file in files:
        found: list[tuple[str, Level]] = []
        if cycle := cycles.get(file.path):
            names_of_it = shown(" -> ".join(by_path[path].name for path in cycle), _LONGEST)
            found.append((f"calls form a cycle: {names_of_it}; remove one of these names", "error"))
        bad = [text for name in _listed(file) if (text := complaint(name, file))]
        found += [(text, "warning") for text in bad[:MAX_REPORTED]]
        if len(bad) > MAX_REPORTED:
            found.append((f"{len(bad) - MAX_REPORTED} more names that cannot be called", "warning"))
        line = file.lines.get("agents", 1)
        problems = (Problem(file.path, line, 1, "agents", text, level) for text, level in found)
        checked.append(file.with_problems((*file.problems, *problems)) if found else file)
    return checked


def _listed(file: SpecialistFile) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in file.specialist.agents if name != "*")) if file.specialist else ()


def _or(names: Sequence[str]) -> str:
    return " or ".join(map(shown, names))


def _cycles(edges: Mapping[Path, Sequence[Path]]) -> dict[Path, list[Path]]:
    """Return one cycle for each of its files, each its first and its last member; no file is in two of them.

    edges: path of each file, mapped to the paths of the files it may call.
    """
    found: dict[Path, list[Path]] = {}
    while True:
        try:
            TopologicalSorter({path: callees for path, callees in edges.items() if path not in found}).prepare()
        except CycleError as error:
            # Each member is called by the next one.
            _, *cycle = reversed(error.args[1])
            for turn, member in enumerate(cycle):
                found[member] = [*cycle[turn:], *cycle[: turn + 1]]
        else:
            return found


class NameLookup:
    """Index of files by name; if two files share a name, the nearer one wins."""

    def __init__(self, files: Sequence[SpecialistFile]) -> None:
        """Index the files, given nearest first."""
        far_first = [*reversed(files)]
        # In order of precedence: the `name` key, the file name, the `name` key in lower case.
        self._indexes = [
            {file.name: file for file in far_first},
            {stem(file.path): file for file in far_first},
            {file.name.lower(): file for file in far_first},
        ]

    def find(self, name: str) -> SpecialistFile | None:
        """Return the file with this name, or None."""
        exact, stems, folded = self._indexes
        return exact.get(name) or stems.get(name) or folded.get(name.lower())

    def near(self, name: str, cutoff: float = 0.5) -> list[str]:
        """Return up to three similar names.

        cutoff: Minimum similarity, from 0 to 1.
        """
        return difflib.get_close_matches(name[:100], sorted(self._indexes[0]), n=3, cutoff=cutoff)
