"""All specialist files in the search folders, found by name; the graph of those that call each other."""

import difflib
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from run_specialist.errors import SpecialistNotFound
from run_specialist.safety import safe_files
from run_specialist.specialist.dialects import dialect_of, is_file_name, is_toml
from run_specialist.specialist.loader import Default, SpecialistFile, load, load_unreadable, stem
from run_specialist.specialist.problems import Level, Problem, shown
from run_specialist.specialist.project import (
    SearchFolder,
    identity,
    project_of,
)

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
            return check([self._load(path, project)], self._unlinked)[0]
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
                with safe_files.open_file(path, project) as file:
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
            if winner is not file:
                text = f"hidden by a nearer file with the same name, {shown(str(winner.path), None)}"
                problem = Problem(file.path, file.lines.get("name", 1), 1, "name", text, "warning")
                file = file.with_problems((*file.problems, problem))
            files.append(file)
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
# Runs in time linear in the files and the names they list; only files that are part of a cycle cost more.

MAX_DEPTH = 2
"""Maximum delegation depth below the first specialist."""
MAX_REPORTED = 10
"""Maximum number of bad names reported one by one per file; the rest are counted."""
MAX_SUGGESTED = 20
"""Maximum number of unknown names for which similar names are searched."""
SIMILARITY_CUTOFF = 0.7
"""Minimum similarity of a suggested name, from 0 to 1."""
_LONGEST = 300

_Edges = Mapping[Path, Sequence[Path]]
"""Path of each file, mapped to the paths of the files it may call."""


def check(
    files: Sequence[SpecialistFile], further: Callable[[], Sequence[SpecialistFile]] = tuple
) -> list[SpecialistFile]:
    """Return the files with the problems of their `agents` added; a file in a cycle gets an error.

    files: nearest first.
    further: Returns more files that may be called; called only if a file lists agents.
    """
    if not any(_listed(file) for file in files):
        return [*files]
    return _Graph(files, further()).checked()


def _listed(file: SpecialistFile) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in file.specialist.agents if name != "*")) if file.specialist else ()


class _Graph:
    def __init__(self, files: Sequence[SpecialistFile], further: Sequence[SpecialistFile]) -> None:
        self._files = files
        self._names = NameLookup([*files, *further])
        self._suggestions_left = MAX_SUGGESTED
        self._by_path: dict[Path, SpecialistFile] = {}
        for file in (*files, *further):
            self._by_path.setdefault(file.path, file)
        # A run leaves out the specialists above it, so that others may call each other.
        callers = [file for file in self._by_path.values() if _listed(file) and not file.may_circle]
        edges = {
            file.path: [one.path for name in _listed(file) if (one := self._find(name, file)) is not None]
            for file in callers
        }
        self._cycles = _cycles(edges)
        runnable = {path: [one for one in callees if self._can_run(one)] for path, callees in edges.items()}
        self._chains = _chains({path: callees for path, callees in runnable.items() if path not in self._cycles})

    def checked(self) -> list[SpecialistFile]:
        files = []
        for file in self._files:
            line = file.lines.get("agents", 1)
            complaints = self._complaints(file) if _listed(file) else ()
            found = [Problem(file.path, line, 1, "agents", text, level) for text, level in complaints]
            files.append(file.with_problems((*file.problems, *found)) if found else file)
        return files

    def _complaints(self, file: SpecialistFile) -> Iterable[tuple[str, Level]]:
        cycle = self._cycles.get(file.path)
        if cycle:
            yield f"calls form a cycle: {self._path(cycle)}; remove one of these names", "error"
        # The error above already names the other members of the cycle.
        reported = set(cycle or ())
        names = [name for name in _listed(file) if not ((found := self._find(name, file)) and found.path in reported)]
        bad = [text for name in names if (text := self._of_name(name, file))]
        for text in bad[:MAX_REPORTED]:
            yield text, "warning"
        if len(bad) > MAX_REPORTED:
            yield f"{len(bad) - MAX_REPORTED} more names that cannot be called", "warning"
        if chain := self._chains.get(file.path):
            last = shown(self._by_path[chain[-1]].name)
            yield f"{self._path(chain)}: {last} is more than {MAX_DEPTH} levels deep and cannot be called", "warning"

    def _of_name(self, name: str, caller: SpecialistFile) -> str | None:
        """Return the problem with a listed name, or None."""
        file = self._find(name, caller)
        if file is None:
            self._suggestions_left -= 1
            near = self._names.near(name, SIMILARITY_CUTOFF) if self._suggestions_left >= 0 else []
            suggestion = f"; did you mean {' or '.join(map(shown, near))}?" if near else ""
            return f"no specialist named {shown(name)}{suggestion}"
        if self._can_run(file.path):
            return None
        first = next((str(problem) for problem in file.problems if problem.level == "error"), None)
        return f"{shown(name)} cannot be run: {first or 'it is part of a cycle'}"

    def _find(self, name: str, caller: SpecialistFile) -> SpecialistFile | None:
        if is_file_name(name) and os.path.lexists(name.replace("\0", "")):
            path = Path(name)
            if path not in self._by_path:
                self._by_path[path] = load(path, caller.project or project_of(path))
            return self._by_path[path]
        return self._names.find(name)

    def _can_run(self, path: Path) -> bool:
        return self._by_path[path].specialist is not None and path not in self._cycles

    def _path(self, paths: Sequence[Path]) -> str:
        return shown(" -> ".join(self._by_path[path].name for path in paths), _LONGEST)


def _cycles(edges: _Edges) -> dict[Path, list[Path]]:
    """Return one cycle for each file that is part of one; the file is its first and its last member."""
    remaining = _without_leaves(edges)
    found: dict[Path, list[Path]] = {}
    for path in remaining:
        if path not in found and (cycle := _shortest_cycle(path, remaining)):
            for turn, member in enumerate(cycle):
                found.setdefault(member, [*cycle[turn:], *cycle[: turn + 1]])
    return found


def _without_leaves(edges: _Edges) -> _Edges:
    """Return the graph after repeatedly removing every file that calls no other."""
    callers: dict[Path, list[Path]] = {}
    for path, callees in edges.items():
        for one in callees:
            callers.setdefault(one, []).append(path)
    out_degree = {path: len(callees) for path, callees in edges.items()}
    leaves = deque(path for path in callers if not out_degree.get(path))
    removed = set(leaves)
    while leaves:
        for path in callers.get(leaves.popleft(), ()):
            out_degree[path] -= 1
            if not out_degree[path]:
                removed.add(path)
                leaves.append(path)
    return {path: callees for path, callees in edges.items() if path not in removed and out_degree[path]}


def _shortest_cycle(start: Path, edges: _Edges) -> list[Path]:
    """Return the shortest cycle through a file, each member once; empty if there is none."""
    came_from: dict[Path, Path] = {}
    queue = deque([start])
    while queue:
        path = queue.popleft()
        for one in edges.get(path, ()):
            if one == start:
                cycle = [path]
                while cycle[-1] != start:
                    cycle.append(came_from[cycle[-1]])
                return cycle[::-1]
            if one not in came_from:
                came_from[one] = path
                queue.append(one)
    return []


def _chains(edges: _Edges) -> dict[Path, list[Path]]:
    """Return one call chain for each file whose chains exceed `MAX_DEPTH`, up to the first file that is too deep."""
    nodes = (*edges, *(one for callees in edges.values() for one in callees))
    chains: dict[Path, list[Path]] = {path: [path] for path in nodes}
    for _ in range(MAX_DEPTH + 1):
        chains = {path: [path, *chains[one]] for path, callees in edges.items() for one in callees if one in chains}
    return chains


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
