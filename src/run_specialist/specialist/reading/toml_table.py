"""Read one table of a TOML file, with the line of each key."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_AT_LINE = re.compile(r" ?\(at line (\d+), column \d+\)$")
_AT_END = re.compile(r" ?\(at end of document\)$")
_MAY_END = re.compile(r"""[\]}"']\s*(#.*)?$""")
_MOST_TRIES = 100
"""Maximum number of lines on which one value may seem to end; beyond it, positions of later keys stay unknown."""

DEEPEST = 50
"""Maximum number of parts of a dotted key, and of nested values; the parser's time for a key is quadratic in it."""
_TOO_MANY_PARTS = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{DEEPEST}}}(?=[\w"'-])"""
)


class InvalidToml(ValueError):
    """The text is not valid TOML."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table with the places of its keys."""

    values: dict[str, Any]
    places: Mapping[str, int]
    """Line of each key whose place could be found."""
    header: int
    """Line of the table's header; 1 if there is none."""

    def line(self, key: str) -> int:
        """Return the line on which a key is set; if unknown, that of the header."""
        return self.places.get(key, self.header)


def read_table(text: str, names: tuple[str, ...]) -> TomlTable | None:
    """Return a table of a TOML text; None if it does not exist.

    names: names of the table and its parents; empty for the whole text.
    Raises InvalidToml with the line.
    """
    import tomllib  # noqa: PLC0415 - only if there is such a file

    lines = text.splitlines(keepends=True)
    if found := _TOO_MANY_PARTS.search(text):
        raise InvalidToml(text.count("\n", 0, found.start()) + 1, f"a key has more than {DEEPEST} parts")
    try:
        document = tomllib.loads(text)
        _require_flat(document)
    except RecursionError:
        raise InvalidToml(1, "it is nested too deeply") from None
    except ValueError as error:
        reason = str(error)
        found = _AT_LINE.search(reason)
        line = int(found[1]) if found else max(len(lines), 1)
        raise InvalidToml(line, _AT_END.sub(" at the end", _AT_LINE.sub("", reason))) from None
    values = _inside(document, names)
    if values is None:
        return None
    header = _header(lines, names)
    places = _places(lines[header - 1 :], names, values, header)
    if len(places) < len(values):
        # The header may have been a line of a longer text, or its keys are written elsewhere, with dots.
        places = _places(lines, names, values, 1)
    return TomlTable(values, places, header)


def _require_flat(document: dict[str, Any]) -> None:
    """Raise RecursionError for values that other functions could not print or check."""
    level: list[object] = [document]
    for _ in range(DEEPEST):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for values in inner for value in values]
        if not level:
            return
    raise RecursionError


def _header(lines: Sequence[str], names: tuple[str, ...]) -> int:
    dotted = r"\s*\.\s*".join(f"[\"']?{re.escape(name)}[\"']?" for name in names)
    header = re.compile(rf"\s*\[\s*{dotted}\s*\]")
    return next((number for number, line in enumerate(lines, 1) if header.match(line)), 1) if names else 1


def _places(lines: Sequence[str], names: tuple[str, ...], wanted: Collection[str], first: int) -> Mapping[str, int]:
    """Return the line of each key of a table, by parsing one statement after another.

    lines: text from the header of the table, or from the start.
    wanted: the keys; the search ends when all are found.
    first: number of the first line.
    """
    places: dict[str, int] = {}
    table: tuple[str, ...] = ()
    at = 0
    while at < len(lines) and len(places) < len(wanted):
        length, statement = _statement(lines, at)
        if statement is None:
            break
        if lines[at].lstrip().startswith("["):
            table, found = (), statement
            while len(found) == 1:
                name, inner = next(iter(found.items()))
                table, found = (*table, name), inner[0] if isinstance(inner, list) else inner
        else:
            for name in reversed(table):
                statement = {name: statement}
        for key in _inside(statement, names) or {}:
            places.setdefault(key, first + at)
        at += length
    return places


def _statement(lines: Sequence[str], at: int) -> tuple[int, dict[str, Any] | None]:
    """Return the number of lines of the statement that starts on a line, and its value; None if it is too long."""
    tries = 0
    for end in range(at + 1, len(lines) + 1):
        # A value of several lines ends with a bracket or a quote, perhaps followed by a comment.
        if end > at + 1 and not _MAY_END.search(lines[end - 1]):
            continue
        tries += 1
        if (found := _parsed(lines[at:end])) is not None:
            return end - at, found
        if tries > _MOST_TRIES:
            break
    return 0, None


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
