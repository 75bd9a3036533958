"""Mask every kind of credential that is known by its shape, its name, or its value."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from run_specialist.redaction.assignments import assigned
from run_specialist.redaction.headers import authorising
from run_specialist.redaction.mask import MASK, lowered, masked
from run_specialist.redaction.private_keys import without_private_keys
from run_specialist.redaction.process_credentials import encodings
from run_specialist.redaction.tokens import tokens


def redact(text: str) -> str:
    """Replace keys, tokens, passwords and private keys by a mask; everything else stays byte for byte."""
    if not text:
        return text
    text = without_private_keys(text)
    lower = lowered(text)
    return masked(text, sorted([*tokens(text), *authorising(text, lower), *assigned(text, lower)]))


def redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that masks these values too, plain, URL-encoded, JSON-escaped and in base64.

    secrets: those shorter than `SHORTEST` are ignored.
    """
    return _redactor(frozenset(secrets))


# Each of a thousand children asks for the same one.
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
