"""The text of notes, as written and as added to a prompt."""

_UNREADABLE = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))
"""Control characters that a note does not need."""


def plain(text: str) -> str:
    """Return a text without control characters and lone surrogates, with Unix line ends."""
    unix = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode("utf-8")
    return unix.translate(_UNREADABLE)
