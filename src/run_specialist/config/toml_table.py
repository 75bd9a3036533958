"""Read one table of a TOML file, with the line of each key."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_AT_LINE = re.compile(r" ?\(at line (\d+), column \d+\)$")
_AT_END = re.compile(r" ?\(at end of document\)$")
_LONGEST_VALUE = 100
"""Maximum number of lines of one value, when its place is searched."""


class InvalidToml(ValueError):
    """The text is not TOML."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table with its text."""

    values: dict[str, Any]
    lines: Sequence[str]
    """The whole text of the file."""
    names: tuple[str, ...]
    """Names of the table and of those around it; empty for the top."""

    @property
    def header(self) -> int:
        """Line of the table's header; 1 if there is none."""
        if not self.names:
            return 1
        dotted = r"\s*\.\s*".join(f"[\"']?{re.escape(name)}[\"']?" for name in self.names)
        header = re.compile(rf"\s*\[\s*{dotted}\s*\]")
        return next((number for number, line in enumerate(self.lines, 1) if header.match(line)), 1)

    def line(self, key: str) -> int:
        """Return the line on which a key is set; the line of the header if it is written in an unusual way."""
        start = self.header - 1
        for index in range(start, len(self.lines)):
            if key in self.lines[index] and self._sets(key, start, index):
                return index + 1
        return start + 1

    def _sets(self, key: str, start: int, index: int) -> bool:
        """Return whether the statement that begins on a line sets the key; text in other values does not count."""
        if key in (_inside(_parsed(self.lines[start:index]) or {}, self.names) or {}):
            return False
        for end in range(index + 1, min(index + _LONGEST_VALUE, len(self.lines)) + 1):
            if (document := _parsed(self.lines[start:end])) is not None:
                return key in (_inside(document, self.names) or {})
        return False


def read_table(text: str, names: tuple[str, ...]) -> TomlTable | None:
    """Return a table of a TOML text; None if it does not exist.

    names: names of the table and of those around it; empty for the whole text.
    Raises InvalidToml with the line.
    """
    import tomllib  # noqa: PLC0415 - only if there is such a file

    lines = text.splitlines(keepends=True)
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise InvalidToml(1, "it is nested too deeply") from None
    except ValueError as error:
        reason = str(error)
        found = _AT_LINE.search(reason)
        line = int(found[1]) if found else max(len(lines), 1)
        raise InvalidToml(line, _AT_END.sub(" at the end", _AT_LINE.sub("", reason))) from None
    values = _inside(document, names)
    return None if values is None else TomlTable(values, lines, names)


def _inside(document: dict[str, Any], names: Sequence[str]) -> dict[str, Any] | None:
    for name in names:
        inner = document.get(name)
        if not isinstance(inner, dict):
            return None
        document = inner
    return document


def _parsed(lines: Sequence[str]) -> dict[str, Any] | None:
    import tomllib  # noqa: PLC0415 - as above

    try:
        return tomllib.loads("".join(lines))
    except (ValueError, RecursionError):
        return None
