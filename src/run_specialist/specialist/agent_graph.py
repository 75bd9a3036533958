"""Check the graph of specialists that call each other: every name under `agents` must exist, without cycles.

Runs in time linear in the files and the names they list; only files that are part of a cycle cost more.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from run_specialist.specialist.dialects import is_file_name
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.lookup import NameLookup
from run_specialist.specialist.problems import Level, Problem, shown
from run_specialist.specialist.project import project_of

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
        edges = {file.path: self._callees(file) for file in callers}
        self._cycles = _cycles(edges)
        runnable = {path: [one for one in callees if self._can_run(one)] for path, callees in edges.items()}
        self._chains = _chains({path: callees for path, callees in runnable.items() if path not in self._cycles})

    def checked(self) -> list[SpecialistFile]:
        return [self._checked(file) for file in self._files]

    def _checked(self, file: SpecialistFile) -> SpecialistFile:
        found = [_problem(file, text, level) for text, level in self._complaints(file)] if _listed(file) else []
        return file.with_problems((*file.problems, *found)) if found else file

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

    def _callees(self, file: SpecialistFile) -> list[Path]:
        found = (self._find(name, file) for name in _listed(file))
        return [one.path for one in found if one is not None]

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


def _problem(file: SpecialistFile, text: str, level: Level) -> Problem:
    return Problem(file.path, file.lines.get("agents", 1), 1, "agents", text, level)


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
