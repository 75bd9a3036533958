"""Find credentials in requests: passwords in URLs, `Authorization` headers, `curl -u`, signatures."""

import base64
import binascii
import re
from collections.abc import Iterator

from run_specialist.redaction.mask import TextSpan

_URL_PASSWORD = re.compile(r"""://[^\s:/@"'<>`]{0,100}:(?![$<{\[*]|\d{1,5}[,;)\]])([^\s/"'<>`]{1,200})@""")
# These are matched against lowercase text: `re` is many times slower with IGNORECASE.
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


def request_credentials(text: str, lower: str) -> Iterator[TextSpan]:
    """Yield the spans of passwords and tokens in URLs and headers, without scheme and user.

    lower: the text in lower case, with the same offsets.
    """
    if "://" in text:
        yield from (found.span(1) for found in _URL_PASSWORD.finditer(text))
    if "curl" in text:
        yield from (found.span(1) for found in _CURL.finditer(text))
    yield from (found.span(1) for found in _BEARER.finditer(lower))
    yield from (found.span(1) for found in _AUTHORIZATION.finditer(lower))
    if "sig" in lower:
        yield from (found.span(1) for found in _SIGNATURE.finditer(lower))
    for pattern in (_BASIC, _DOCKER):
        spans = (found.span(1) for found in pattern.finditer(lower))
        yield from (span for span in spans if _is_user_and_password(text[slice(*span)]))


def _is_user_and_password(encoded: str) -> bool:
    """Return whether a value is base64 of `user:password`, possibly truncated; English words never are."""
    unpadded = encoded.rstrip("=")
    try:
        decoded = base64.b64decode(unpadded[: len(unpadded) // 4 * 4].translate(_STANDARD))
    except binascii.Error:
        return False
    return b":" in decoded and all(byte in _PRINTABLE for byte in decoded)


_STANDARD = str.maketrans("-_", "+/")
