"""Find what authorises a request: passwords in URLs, `Authorization` headers, `curl -u`."""

import base64
import binascii
import re
from collections.abc import Iterator

from run_specialist.redaction.mask import Span

_IN_A_URL = re.compile(r"""://[^\s:/@"'<>`]{0,100}:(?![$<{\[*]|\d{1,5}[,;)\]])([^\s/"'<>`]{1,200})@""")
# These are searched for in lower case: `re` is many times slower where it has to take both cases as equal.
_BEARER = re.compile(r"bearer(?<=\bbearer)\s{1,8}([a-z0-9._~+/-]{16,}=*)")
_BASIC = re.compile(r"basic(?<=\bbasic)\s{1,8}([a-z0-9+/_-]{8,}={0,2})")
_AUTHORIZATION = re.compile(
    r"""(?x) authorization ["'\]\\]{0,4} \s{0,8} (?: : | =\s{0,8}(?=["'`\\]) ) \s{0,8} [\\"'`]{0,4}
    (?: (?: bearer | token | bot | api-?key | key | digest | negotiate | ssws | genie-?key ) \s{1,8} )?
    (?= [^\s"'`]{0,200}? (?: \d | [^\s"'`]{24} ) ) ([a-z0-9._~+/=:-]{8,})"""
)
_CURL = re.compile(r"""curl\b[^\n]{0,400}?\s(?:-u|--user)[ =]{0,2}["']?[^\s:"'$]{1,100}:([^\s"'$<{][^\s"']{0,200})""")
_SIGNATURE = re.compile(r"[?&;](?:x-amz-|x-goog-)?(?:sig|signature|security-token)=([a-z0-9%+/_-]{16,}=*)")
_DOCKER = re.compile(r""""auth\\?"\s{0,8}:\s{0,8}\\?"([a-z0-9+/_-]{8,}={0,2})""")
_PRINTABLE = range(0x20, 0x7F)


def authorising(text: str, lower: str) -> Iterator[Span]:
    """Yield where the password or token of each URL and header stands; scheme and user are no secret.

    lower: the text in lower case, letter by letter.
    """
    if "://" in text:
        yield from (found.span(1) for found in _IN_A_URL.finditer(text))
    if "curl" in text:
        yield from (found.span(1) for found in _CURL.finditer(text))
    yield from (found.span(1) for found in _BEARER.finditer(lower))
    yield from (found.span(1) for found in _AUTHORIZATION.finditer(lower))
    if "sig" in lower:
        yield from (found.span(1) for found in _SIGNATURE.finditer(lower))
    for encoded in (_BASIC, _DOCKER):
        yield from (found.span(1) for found in encoded.finditer(lower) if _names_a_user(text[slice(*found.span(1))]))


def _names_a_user(encoded: str) -> bool:
    """Tell whether base64 decodes to `user:password`, which no English word does; its end may be cut off."""
    whole = encoded.rstrip("=")
    try:
        decoded = base64.b64decode(whole[: len(whole) // 4 * 4].translate(_STANDARD))
    except binascii.Error:
        return False
    return b":" in decoded and all(byte in _PRINTABLE for byte in decoded)


_STANDARD = str.maketrans("-_", "+/")
