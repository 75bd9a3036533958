"""The first difference between a replay and its recorded run, as a block of lines and as JSON values."""

import difflib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

LONGEST_LINE = 400
"""Maximum length of a line; longer ones are cut to the part around their first difference [characters]."""
MOST_LINES = 120
"""Maximum number of lines that are shown."""
_BEFORE = 80
"""Length of the text before the first difference that is shown of a long line [characters]."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference."""

    request: int | None
    """Number of the request, from 1; None for the end of the run."""
    part: str
    """The differing part, e.g. `system prompt`, `definition of the tool read` or `message 3`."""
    stored: str
    now: str
    hints: tuple[str, ...] = ()
    """The probable causes, one sentence each."""

    @property
    def diff(self) -> tuple[str, ...]:
        """The lines of a unified diff, without line ends."""
        before, after = self.stored.split("\n"), self.now.split("\n")
        lines = difflib.unified_diff(before, after, "stored", "now", lineterm="")
        return tuple(_shortened([*lines]))

    def heading(self, source: str, requests: int) -> str:
        """Return the place of the difference.

        source: the run or the file.
        requests: number of requests of the recorded run.
        """
        place = "at the end" if self.request is None else f"at request {self.request} of {requests}"
        return f"{source} differs {place}: {self.part}"

    @property
    def shown(self) -> tuple[str, ...]:
        """The first lines of the diff, for people."""
        diff = self.diff
        more = len(diff) - MOST_LINES
        return diff if more <= 0 else (*diff[:MOST_LINES], f"[{more} more lines; --json has them all]")

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON values."""
        return {**asdict(self), "hints": [*self.hints], "diff": [*self.diff]}


def _shortened(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a diff; long lines that replace each other are cut around their first difference."""
    for place, line in enumerate(lines):
        if len(line) <= LONGEST_LINE:
            yield line
            continue
        others = [other for other in lines[max(place - 1, 0) : place + 2] if other[:1] + line[:1] in {"+-", "-+"}]
        begin = max((_first_difference(line, other) for other in others), default=1)
        begin = max(begin - _BEFORE, 1)
        ends = begin + LONGEST_LINE < len(line)
        yield f"{line[0]}{'…' if begin > 1 else ''}{line[begin : begin + LONGEST_LINE]}{'…' if ends else ''}"


def _first_difference(one: str, other: str) -> int:
    pairs = enumerate(zip(one[1:], other[1:], strict=False), 1)
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
