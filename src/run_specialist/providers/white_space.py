"""Detect a streamed reply that continues with only white space, as models in a loop produce."""

import json
from collections.abc import Iterable

COMPLETE = "white_space"
"""Stop reason of a reply that was ended for this reason and may be complete; no server sends it."""
CUT = "white_space_cut"
"""Stop reason of such a reply that breaks off in the middle of JSON."""
MOST_WHITE_SPACE = 2_000
"""Length of white space in a row after which a reply is ended [characters]."""
ENDED = f"the model wrote nothing but white space for {MOST_WHITE_SPACE:,} characters; its reply was ended there"


_ESCAPES = ("\\n", "\\r", "\\t")
"""Escaped white space in a JSON string."""


class WhiteSpace:
    """Counts the white space at the end of a reply."""

    def __init__(self) -> None:
        self._length = 0
        self._backslash = ""

    def add(self, text: str) -> None:
        """Count the next piece."""
        text = self._backslash + text
        # An escape may be split between two pieces.
        self._backslash = "\\" if text.endswith("\\") else ""
        text = text.removesuffix(self._backslash)
        for escape in _ESCAPES:
            text = text.replace(escape, "  ")
        blank = len(text) - len(text.rstrip())
        self._length = self._length + blank if blank == len(text) else blank

    @property
    def is_endless(self) -> bool:
        """True once the reply should be ended."""
        return self._length >= MOST_WHITE_SPACE


def stop_reason(texts: Iterable[str]) -> str:
    """Return the stop reason of a reply that was ended.

    texts: its text, and the arguments of its calls.
    """
    return CUT if any(map(_breaks_off, texts)) else COMPLETE


def _breaks_off(text: str) -> bool:
    """Return whether a text begins as JSON but is not complete."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def warning(reason: str) -> str:
    """Return the warning about a reply with this stop reason; empty if it was not ended for white space."""
    return ENDED if reason in {COMPLETE, CUT} else ""
