"""Problems of a specialist file, with their positions."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

Level = Literal["error", "warning", "notice"]

SHOWN_LENGTH = 60
MAX_PROBLEMS = 100


class Position(NamedTuple):
    """Position in a file; line and column count from 1."""

    line: int
    column: int


START = Position(1, 1)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a file; `str(problem)` is `file:line:column: key: text`."""

    path: Path
    line: int
    column: int
    key: str | None
    """Canonical key, or the key as written if it is unknown; None = the whole file."""
    text: str
    level: Level
    """An error prevents running; a warning should be checked; a notice is only informative."""

    def __str__(self) -> str:
        """Return `file:line:column: key: text`, without the key if there is none."""
        return self.printed()

    def printed(self, label: str = "") -> str:
        """Return the text of `str`, with a label such as `error: ` after the position, where compilers print it."""
        about = f"{shown(self.key)}: " if self.key else ""
        return f"{shown(str(self.path), None)}:{self.line}:{self.column}: {label}{about}{self.text}"

    def as_json(self) -> dict[str, str | int | None]:
        """Return the six fields as plain values."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(slots=True)
class Problems:
    """Problems of one file, collected while it is loaded."""

    path: Path
    found: list[Problem] = field(default_factory=list)
    dropped: int = 0

    def error(self, place: Position, text: str, key: str | None = None) -> None:
        """Record a problem that prevents running."""
        self.found.append(Problem(self.path, *place, key, text, "error"))

    def warn(self, place: Position, text: str, key: str | None = None) -> None:
        """Record a problem that should be checked."""
        self._add(Problem(self.path, *place, key, text, "warning"))

    def notice(self, place: Position, text: str, key: str | None = None) -> None:
        """Record a harmless deviation."""
        self._add(Problem(self.path, *place, key, text, "notice"))

    def warner(self, place: Position, key: str | None = None) -> Callable[[str], None]:
        """Return `warn` bound to a position and a key."""
        return lambda text: self.warn(place, text, key)

    @property
    def full(self) -> bool:
        """Whether further warnings and notices are only counted."""
        return len(self.found) >= MAX_PROBLEMS

    def sorted(self) -> tuple[Problem, ...]:
        """Return the problems by position, followed by the number of omitted ones, if any."""
        found = sorted(self.found, key=lambda problem: (problem.line, problem.column))
        if self.dropped:
            found.append(Problem(self.path, *START, None, f"{self.dropped} more problems omitted", "warning"))
        return tuple(found)

    def _add(self, problem: Problem) -> None:
        # Bounds the output for large damaged files.
        if self.found and self.found[-1] == problem:
            return
        if self.full:
            self.dropped += 1
        else:
            self.found.append(problem)


def shown(value: str, length: int | None = SHOWN_LENGTH, *, keep: str = "") -> str:
    """Return `value` truncated and with unprintable characters escaped, for output on a terminal.

    length: Maximum length [characters]; None = not truncated.
    keep: Unprintable characters to leave unescaped, such as newlines.
    """
    cut = value if length is None or len(value) <= length else value[: length - 3] + "..."
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in cut)
