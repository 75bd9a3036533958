"""Convert texts to the form in which they are searched: caseless, and as bytes, which every database can store."""

import unicodedata


def folded(text: str) -> bytes:
    """Return a text for searches that ignore case and the composition of accents."""
    return unicodedata.normalize("NFC", text).casefold().encode("utf-8", "surrogatepass")
