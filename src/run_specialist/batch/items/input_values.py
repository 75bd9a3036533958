"""Check the values of an input (can they be sent and stored?), and format them as text."""

import json
import re
from collections.abc import Mapping

from run_specialist.batch.item import Input

_LIMIT_SHOWN = 60
# A NUL as `json.dumps` writes it; after an even number of backslashes, else the text contains these characters.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_SUSPECT = re.compile(r"\\u(?:d[89a-f]|0000)")


def as_text(value: object) -> str:
    """Return the text of a value in a question: strings unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fields_of(given: Input) -> Mapping[str, object]:
    """Return the fields of an input; a text is the field `item`."""
    return given if isinstance(given, Mapping) else {"item": given}


def problem_of(given: object) -> str | None:
    """Return why an input cannot be used, as the end of a sentence; None if it can."""
    if not isinstance(given, str | Mapping):
        return f"must be an object or a string, got {type(given).__name__}"
    if isinstance(given, Mapping) and not all(isinstance(name, str) for name in given):
        return "has a field whose name is not a string"
    try:
        text = json.dumps(given, allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"has a value that is not JSON: {str(error)[:_LIMIT_SHOWN]}"
    except RecursionError:
        return "is nested too deeply"
    return _bad_characters(given, text) if _SUSPECT.search(text) else None


def _bad_characters(given: object, text: str) -> str | None:
    """Return the characters of an input that databases or model APIs reject; None if there are none."""
    if _NUL.search(text):
        return "contains a NUL character; remove it"
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair, which is not a character; remove it"
    return None
