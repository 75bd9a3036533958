"""Add one value to JSON with comments and trailing commas, as editors write it, and leave everything else unchanged."""

import json
import re
from collections.abc import Sequence

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_DECODER = json.JSONDecoder()


def add_value(text: str, keys: Sequence[str], value: object) -> str:
    """Return the text with a value at a path of keys; missing objects are added, and an existing value is kept.

    text: An object; blank = an empty one.
    keys: At least one.
    Raises ValueError for a text that cannot be parsed, or if a value on the path is not an object.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text.strip("\ufeff \t\r\n"):
        return text + _dumped(_nested(keys, value), "  ", "", newline) + newline
    plain = _without_comments(text)
    json.loads(plain)
    found = _INDENT.search(plain)
    indent = found[1] if found else "  "
    at = _skip(plain, 0)
    for depth, key in enumerate(keys):
        if plain[at] != "{":
            raise ValueError(f"{json.dumps(keys[depth - 1])} is not an object" if depth else "it is not an object")
        members = _members(plain, at)
        if key not in members:
            inner = _dumped(_nested(keys[depth + 1 :], value), indent, indent * (depth + 1), newline)
            return _inserted(text, plain, at, f"{json.dumps(key)}: {inner}", (indent * depth, indent), newline)
        at = members[key]
    return text


def _nested(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _dumped(value: object, indent: str, margin: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", newline + margin)


def _inserted(text: str, plain: str, at: int, entry: str, margins: tuple[str, str], newline: str) -> str:
    """Return the text with an entry at the begin of the object at `at`, below a comment on the line of its brace.

    margins: White space before the line of the object, and before an entry in addition.
    """
    margin, indent = margins
    end_of_line = plain.find("\n", at)
    below = end_of_line >= 0 and not plain[at + 1 : end_of_line].strip()
    place = end_of_line + 1 if below else at + 1
    more = plain[_skip(plain, at + 1)] != "}"
    line = f"{margin}{indent}{entry}{',' if more else ''}{newline}"
    if below:
        return f"{text[:place]}{line}{text[place:]}"
    rest = f"{margin}{indent}" if more else margin
    return f"{text[:place]}{newline}{line}{rest}{text[place:].lstrip(' ')}"


def _without_comments(text: str) -> str:
    """Return JSON of the same length, with blanks in place of comments, trailing commas and a byte order mark."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else " " * len(match[0])

    return _TRAILING_COMMA.sub(blank, _TOKEN.sub(blank, text)).replace("\ufeff", " ", 1)


def _members(plain: str, at: int) -> dict[str, int]:
    """Return the start of each value of the object at `at`, by key; of a repeated key the last one."""
    found = {}
    place = _skip(plain, at + 1)
    while plain[place] != "}":
        key, end = _DECODER.raw_decode(plain, place)
        found[key] = _skip(plain, _skip(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, found[key])
        place = _skip(plain, end)
        if plain[place] == ",":
            place = _skip(plain, place + 1)
    return found


def _skip(plain: str, place: int) -> int:
    """Return the place of the next character that is not white space."""
    while plain[place] in " \t\r\n":
        place += 1
    return place
