"""Check among files: whom a specialist lists under `agents` must be there, and must not lead back to it.

Linear in the files and the names that they list, but for those that really stand in circles.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.lookup import NameLookup
from run_specialist.specialist.problems import Level, Problem, shown
from run_specialist.specialist.project import project_of

MAX_DEPTH = 2
"""How many levels there may be below the first specialist."""
MOST_TOLD = 10
"""So many of the names in a file are complained of one by one."""
MOST_GUESSED = 20
"""For so many names it is guessed what was meant."""
ALIKE = 0.7
"""Names that are less alike were not meant."""
_LONGEST = 300

_Asks = Mapping[Path, Sequence[Path]]
"""Whom each file that can be run asks, by their paths."""


def check(
    files: Sequence[SpecialistFile], further: Callable[[], Sequence[SpecialistFile]] = tuple
) -> list[SpecialistFile]:
    """Return the files, each with what is wrong with those that it lists; one in a circle cannot be run.

    files: near ones first.
    further: returns those that may be asked as well; called only where a file lists somebody.
    """
    if not any(_listed(file) for file in files):
        return [*files]
    return _Family(files, further()).checked()


def _listed(file: SpecialistFile) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file.specialist.agents)) if file.specialist else ()


class _Family:
    def __init__(self, files: Sequence[SpecialistFile], further: Sequence[SpecialistFile]) -> None:
        self._files = files
        self._names = NameLookup([*files, *further])
        self._guesses = MOST_GUESSED
        self._by_path: dict[Path, SpecialistFile] = {}
        for file in (*files, *further):
            self._by_path.setdefault(file.path, file)
        asking = [file for file in self._by_path.values() if _listed(file)]
        asks = {file.path: self._asked_by(file) for file in asking}
        self._circles = _circles(asks)
        outside = {path: [one for one in whom if self._can_run(one)] for path, whom in asks.items()}
        self._chains = _chains({path: whom for path, whom in outside.items() if path not in self._circles})

    def checked(self) -> list[SpecialistFile]:
        return [self._checked(file) for file in self._files]

    def _checked(self, file: SpecialistFile) -> SpecialistFile:
        found = [_problem(file, text, level) for text, level in self._complaints(file)] if _listed(file) else []
        return file.with_problems((*file.problems, *found)) if found else file

    def _complaints(self, file: SpecialistFile) -> Iterable[tuple[str, Level]]:
        circle = self._circles.get(file.path)
        if circle:
            yield f"ask one another in a circle: {self._path(circle)}; take one of these names out", "error"
        # Whoever stands in the circle too has been named by it.
        told = set(circle or ())
        names = [name for name in _listed(file) if not ((found := self._find(name, file)) and found.path in told)]
        bad = [text for name in names if (text := self._of_name(name, file))]
        for text in bad[:MOST_TOLD]:
            yield text, "warning"
        if len(bad) > MOST_TOLD:
            yield f"{len(bad) - MOST_TOLD} more names that nobody can be asked by", "warning"
        if chain := self._chains.get(file.path):
            last = shown(self._by_path[chain[-1]].name)
            yield f"{self._path(chain)}: {last} will not be asked, more than {MAX_DEPTH} levels below", "warning"

    def _of_name(self, name: str, asker: SpecialistFile) -> str | None:
        """Return what is wrong with a name; None where nothing is."""
        file = self._find(name, asker)
        if file is None:
            self._guesses -= 1
            near = self._names.near(name, ALIKE) if self._guesses >= 0 else []
            meant = f"; did you mean {' or '.join(map(shown, near))}?" if near else ""
            return f"no specialist is called {shown(name)}{meant}"
        if self._can_run(file.path):
            return None
        first = next((str(problem) for problem in file.problems if problem.level == "error"), None)
        return f"{shown(name)} cannot be run: {first or 'it stands in a circle'}"

    def _asked_by(self, file: SpecialistFile) -> list[Path]:
        found = (self._find(name, file) for name in _listed(file))
        return [one.path for one in found if one is not None]

    def _find(self, name: str, asker: SpecialistFile) -> SpecialistFile | None:
        if name.lower().endswith(".md") and os.path.lexists(name.replace("\0", "")):
            path = Path(name)
            if path not in self._by_path:
                self._by_path[path] = load(path, asker.project or project_of(path))
            return self._by_path[path]
        return self._names.find(name)

    def _can_run(self, path: Path) -> bool:
        return self._by_path[path].specialist is not None and path not in self._circles

    def _path(self, paths: Sequence[Path]) -> str:
        return shown(" -> ".join(self._by_path[path].name for path in paths), _LONGEST)


def _problem(file: SpecialistFile, text: str, level: Level) -> Problem:
    return Problem(file.path, file.lines.get("agents", 1), 1, "agents", text, level)


def _circles(asks: _Asks) -> dict[Path, list[Path]]:
    """Return for each file that stands in a circle the way back to itself, itself at both ends."""
    left = _without_ends(asks)
    found: dict[Path, list[Path]] = {}
    for path in left:
        if path not in found and (circle := _way_back(path, left)):
            for turn, member in enumerate(circle):
                found.setdefault(member, [*circle[turn:], *circle[: turn + 1]])
    return found


def _without_ends(asks: _Asks) -> _Asks:
    """Return what is left when those who ask nobody are taken away, again and again."""
    asked_by: dict[Path, list[Path]] = {}
    for path, whom in asks.items():
        for one in whom:
            asked_by.setdefault(one, []).append(path)
    open_ = {path: len(whom) for path, whom in asks.items()}
    ends = deque(path for path in asked_by if not open_.get(path))
    gone = set(ends)
    while ends:
        for path in asked_by.get(ends.popleft(), ()):
            open_[path] -= 1
            if not open_[path]:
                gone.add(path)
                ends.append(path)
    return {path: whom for path, whom in asks.items() if path not in gone and open_[path]}


def _way_back(start: Path, asks: _Asks) -> list[Path]:
    """Return the shortest circle through a file, each member once; empty where there is none."""
    came_from: dict[Path, Path] = {}
    waiting = deque([start])
    while waiting:
        path = waiting.popleft()
        for one in asks.get(path, ()):
            if one == start:
                circle = [path]
                while circle[-1] != start:
                    circle.append(came_from[circle[-1]])
                return circle[::-1]
            if one not in came_from:
                came_from[one] = path
                waiting.append(one)
    return []


def _chains(asks: _Asks) -> dict[Path, list[Path]]:
    """Return for each file from which it goes too deep one way down, as far as the first that is too deep."""
    ways: dict[Path, list[Path]] = {path: [path] for path in (*asks, *(one for whom in asks.values() for one in whom))}
    for _ in range(MAX_DEPTH + 1):
        ways = {path: [path, *ways[one]] for path, whom in asks.items() for one in whom if one in ways}
    return ways
