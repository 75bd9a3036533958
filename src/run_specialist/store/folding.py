"""Convert texts to the form in which they are searched: without case, and as bytes, which every database can hold."""

import unicodedata


def folded(text: str) -> bytes:
    """Return a text in which a search ignores case, and how a letter with an accent is composed."""
    return unicodedata.normalize("NFC", text).casefold().encode("utf-8", "surrogatepass")
