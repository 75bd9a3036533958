"""Mask credentials that are recognized by their format, their name or their value."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from run_specialist.redaction.assignments import assigned
from run_specialist.redaction.headers import request_credentials
from run_specialist.redaction.mask import MASK, lowered, masked
from run_specialist.redaction.private_keys import without_private_keys
from run_specialist.redaction.process_credentials import encodings
from run_specialist.redaction.tokens import tokens


def redact(text: str) -> str:
    """Replace keys, tokens, passwords and private keys by the mask; the rest of the text stays unchanged."""
    if not text:
        return text
    text = without_private_keys(text)
    lower = lowered(text)
    return masked(text, sorted([*tokens(text), *request_credentials(text, lower), *assigned(text, lower)]))


def redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that also masks these values: plain, URL-encoded, JSON-escaped and in base64.

    secrets: values shorter than `SHORTEST` are ignored.
    """
    return _redactor(frozenset(secrets))


# Cached, since all children of a run use the same one.
@lru_cache(maxsize=16)
def _redactor(secrets: frozenset[str]) -> Callable[[str], str]:
    known = encodings(secrets)
    if not known:
        return redact

    def hide(text: str) -> str:
        for one in known:
            text = text.replace(one, MASK)
        return redact(text)

    return hide
