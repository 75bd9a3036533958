"""Format validation errors of a value, with their places, as one short line."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MOST_PLACES = 3
"""Maximum number of errors in a line."""
LONGEST_PLACE, LONGEST_MESSAGE = 80, 240
"""Maximum lengths of a place and of its error message [characters]."""
_NAME = re.compile(r"[A-Za-z_$][\w$-]*")


def depth(error: "ValidationError") -> int:
    """Return the depth of an error in the value; outer errors are reported first."""
    return len(error.absolute_path)


def told(errors: "Iterable[ValidationError]", whole: str) -> str:
    """Return one line with the first errors, each at its most relevant place.

    whole: Name of the root.
    """
    lines: dict[str, None] = {}
    for error in errors:
        best = _meant(error)
        place = place_of(best.absolute_path) or whole
        lines[f"{short(place, LONGEST_PLACE)}: {short(best.message, LONGEST_MESSAGE)}"] = None
        if len(lines) == MOST_PLACES:
            break
    return "; ".join(lines)


def _meant(error: "ValidationError") -> "ValidationError":
    """Return the most relevant error: for alternatives, an error of the one closest to the value."""
    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        # An alternative that is `false` has no place in the schema and is never the intended one.
        if inner.relative_schema_path:
            branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    ranked = sorted(branches.values(), key=_distance)
    if not ranked or (len(ranked) > 1 and _distance(ranked[0]) == _distance(ranked[1])):
        return error
    return _meant(min(ranked[0], key=depth))


def _distance(branch: "list[ValidationError]") -> tuple[bool, bool, int]:
    """Return the distance of the value from an alternative: different type, different constant, number of errors."""
    other_type = any(error.validator == "type" and not error.relative_path for error in branch)
    other_value = any(error.validator in {"const", "enum"} for error in branch)
    return other_type, other_value, len(branch)


def place_of(path: Iterable[str | int]) -> str:
    """Return a path as text, such as `items[2].price`."""

    def steps() -> Iterator[str]:
        for name in path:
            plain = isinstance(name, str) and _NAME.fullmatch(name)
            yield f".{name}" if plain else f"[{json.dumps(name, ensure_ascii=False)}]"

    return "".join(steps()).removeprefix(".")


def short(text: str, most: int) -> str:
    """Return a text on one line; long texts lose their middle, because their end matters most."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 2 - 3]} ... {line[-most // 2 + 2 :]}"
