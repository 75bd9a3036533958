"""Say in one short line what is wrong with a value, and where in it."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MOST_PLACES = 3
"""Places that a line names."""
LONGEST_PLACE, LONGEST_MESSAGE = 80, 240
"""What is shown of a place, and of what is wrong there [characters]."""
_NAME = re.compile(r"[A-Za-z_$][\w$-]*")


def depth(error: "ValidationError") -> int:
    """Return how deep in the value an error stands; the outermost matters most."""
    return len(error.absolute_path)


def told(errors: "Iterable[ValidationError]", whole: str) -> str:
    """Return one line on the first errors, each at the place that is most likely meant.

    whole: what stands for a place at the root.
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
    """Return what is wrong in the one alternative that was most likely meant, where there are several."""
    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        # An alternative that is `false` has no place of its own, and is never what was meant.
        if inner.relative_schema_path:
            branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    ranked = sorted(branches.values(), key=_far)
    if not ranked or (len(ranked) > 1 and _far(ranked[0]) == _far(ranked[1])):
        return error
    return _meant(min(ranked[0], key=depth))


def _far(branch: "list[ValidationError]") -> tuple[bool, bool, int]:
    """Rate how far a value is from an alternative: another type, another fixed value, more that is wrong."""
    other_type = any(error.validator == "type" and not error.relative_path for error in branch)
    other_value = any(error.validator in {"const", "enum"} for error in branch)
    return other_type, other_value, len(branch)


def place_of(path: Iterable[str | int]) -> str:
    """Return `items[2].price`."""

    def steps() -> Iterator[str]:
        for name in path:
            plain = isinstance(name, str) and _NAME.fullmatch(name)
            yield f".{name}" if plain else f"[{json.dumps(name, ensure_ascii=False)}]"

    return "".join(steps()).removeprefix(".")


def short(text: str, most: int) -> str:
    """Return a text on one line; of a long one the middle goes, because the point stands at its end."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 2 - 3]} ... {line[-most // 2 + 2 :]}"
