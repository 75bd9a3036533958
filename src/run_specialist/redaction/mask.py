"""The mask, and how parts of a text are found and replaced by it."""

from collections.abc import Iterable

MASK = "[redacted]"

Span = tuple[int, int]
"""Where a secret begins and ends in a text."""


def masked(text: str, spans: Iterable[Span]) -> str:
    """Return the text with each span replaced by the mask.

    spans: in ascending order; one that begins inside the previous one extends it.
    """
    parts: list[str] = []
    done = 0
    for start, end in spans:
        if start >= done:
            parts += text[done:start], MASK
        done = max(done, end)
    return "".join([*parts, text[done:]]) if parts else text


def lowered(text: str) -> str:
    """Return the text in lower case with every character in its place."""
    lower = text.lower()
    # The only letter whose lower case is two characters.
    return lower if len(lower) == len(text) else text.replace("İ", "I").lower()
