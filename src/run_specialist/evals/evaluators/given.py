"""Check the arguments that a file gives an evaluator; each error becomes one line with its location in the file."""

import math
from typing import Any


def texts(given: Any, what: str) -> tuple[str, ...]:  # noqa: ANN401 - values of a file
    """Return a text or a list of texts as a list; raises ValueError."""
    listed = given if isinstance(given, list | tuple) else [given]
    if not listed or not all(isinstance(one, str) and one.strip() for one in listed):
        raise ValueError(f"expected {what}, or a list of them, got {given!r}")
    return tuple(listed)


def flag(given: Any) -> bool:  # noqa: ANN401 - as above
    """Return a truth value; raises ValueError."""
    if not isinstance(given, bool):
        raise ValueError(f"expected true or false, got {given!r}")  # noqa: TRY004 - all are the same to the caller
    return given


def number(given: Any, most: float = math.inf) -> float:  # noqa: ANN401 - as above
    """Return a number from 0 on; raises ValueError."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= most or math.isinf(given):
        expected = "a number from 0 on" if math.isinf(most) else f"a number from 0 to {most:g}"
        raise ValueError(f"expected {expected}, got {given!r}")
    return float(given)


def joined(words: tuple[str, ...], last: str = "or") -> str:
    """Return words as a list for people, e.g. `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def short(text: str, length: int = 80) -> str:
    """Return a text on one line, cut to a length [characters]."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 3]}..."
