"""What is wrong with a specialist's file, and where."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

Level = Literal["error", "warning", "notice"]

SHOWN_LENGTH = 60
MOST_KEPT = 100


class Position(NamedTuple):
    """Where something stands in a file; both count from 1."""

    line: int
    column: int


START = Position(1, 1)


@dataclass(frozen=True, slots=True)
class Problem:
    """One remark about a file; `str(problem)` is `file:line:column: key: text`."""

    path: Path
    line: int
    column: int
    key: str | None
    """The key in its canonical spelling where we know it, else as written; None = about the file."""
    text: str
    level: Level
    """An error forbids running; a warning is worth a look; a notice is for the record."""

    def __str__(self) -> str:
        """Return `file:line:column: key: text`, the key left out where there is none."""
        about = f"{shown(self.key)}: " if self.key else ""
        return f"{shown(str(self.path), None)}:{self.line}:{self.column}: {about}{self.text}"

    def as_json(self) -> dict[str, str | int | None]:
        """Return the six fields as plain values."""
        return {
            "path": str(self.path),
            "line": self.line,
            "column": self.column,
            "key": self.key,
            "text": self.text,
            "level": self.level,
        }


@dataclass(slots=True)
class Problems:
    """The problems of one file, gathered while it is read."""

    path: Path
    found: list[Problem] = field(default_factory=list)
    dropped: int = 0

    def error(self, place: Position, text: str, key: str | None = None) -> None:
        """Record what forbids running."""
        self.found.append(Problem(self.path, *place, key, text, "error"))

    def warn(self, place: Position, text: str, key: str | None = None) -> None:
        """Record what is worth a look."""
        self._add(Problem(self.path, *place, key, text, "warning"))

    def notice(self, place: Position, text: str, key: str | None = None) -> None:
        """Record what is harmless."""
        self._add(Problem(self.path, *place, key, text, "notice"))

    def remark(self, place: Position, key: str | None = None) -> Callable[[str], None]:
        """Return `warn` with the place filled in."""
        return lambda text: self.warn(place, text, key)

    @property
    def full(self) -> bool:
        """Whether further warnings are only counted."""
        return len(self.found) >= MOST_KEPT

    def sorted(self) -> tuple[Problem, ...]:
        """Return all of them from top to bottom, closed by a count of those left out."""
        found = sorted(self.found, key=lambda problem: (problem.line, problem.column))
        if self.dropped:
            found.append(Problem(self.path, *START, None, f"{self.dropped} more problems left out", "warning"))
        return tuple(found)

    def _add(self, problem: Problem) -> None:
        # A damaged file of megabytes would otherwise yield a listing of its own size.
        if self.found and self.found[-1] == problem:
            return
        if self.full:
            self.dropped += 1
        else:
            self.found.append(problem)


def shown(value: str, length: int | None = SHOWN_LENGTH, *, keep: str = "") -> str:
    """Return `value` fit for a terminal: cut, with control characters spelled out.

    length: characters kept; None = all.
    keep: characters that are left as they are, such as line ends.
    """
    cut = value if length is None or len(value) <= length else value[: length - 3] + "..."
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in cut)
