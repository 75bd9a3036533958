"""Replace spans of a text by the mask."""

from collections.abc import Iterable

MASK = "[redacted]"

TextSpan = tuple[int, int]
"""Start and end of a secret in a text."""


def masked(text: str, spans: Iterable[TextSpan]) -> str:
    """Return the text with each span replaced by the mask.

    spans: in ascending order; overlapping spans are merged.
    """
    parts: list[str] = []
    done = 0
    for start, end in spans:
        if start >= done:
            parts += text[done:start], MASK
        done = max(done, end)
    return "".join([*parts, text[done:]]) if parts else text


def lowered(text: str) -> str:
    """Return the text in lower case, with the same length and offsets."""
    lower = text.lower()
    # The only letter whose lowercase form has two characters.
    return lower if len(lower) == len(text) else text.replace("İ", "I").lower()
