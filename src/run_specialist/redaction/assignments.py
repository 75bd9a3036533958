"""Find the values of passwords, tokens and keys that are assigned to a name.

Covers environment files, shells, YAML, JSON, INI, XML, connection strings, URLs, `.netrc`, command lines and literals
in program code. Expressions, types, placeholders and prose are not masked.
"""

import re
from collections.abc import Iterator

from run_specialist.redaction.line_numbers import NUMBERED
from run_specialist.redaction.literals import is_placeholder, is_type
from run_specialist.redaction.mask import TextSpan
from run_specialist.redaction.quoted import QUOTE, quoted
from run_specialist.redaction.secret_names import Secrecy
from run_specialist.redaction.unquoted import unquoted
from run_specialist.redaction.value_span import SUFFIX, ValueSpan, place_of

_ANCHORS = tuple(
    # Each pattern starts with literal letters, for which `re` searches fastest.
    re.compile(rf"{word}(?={SUFFIX}[\\\"'`\]*]{{0,4}}[ \t]{{0,20}}(?:[:=>?!]|\\\r?\n))")
    for word in (
        "pass(?:word|wd|phrase|(?<=_pass))",
        "pwd(?<![a-z]pwd)",
        "secret",
        "credentials?",
        "token",
        "key",
        "_auth",
    )
)
_FLAG = re.compile(
    r"""--(?=[a-z])[a-z-]{0,40}(?:password|passwd|passphrase|secret|token|api-?key|access-key)"""
    r"""[ \t]+["']?(?![-$<{\[%])([^\s"'`]{4,})"""
)
_NETRC = re.compile(
    rf"""(?xm) (?: (?: \bmachine\s{{1,40}}\S{{1,200}} | ^default ) \s{{1,40}} {NUMBERED} \s{{0,40}}
      login\s{{1,40}}\S{{1,200}}\s{{1,40}} {NUMBERED} \s{{0,40}}
    | \bnetrc[:-]\d{{1,7}}[:-][ \t]{{1,40}} ) password\s{{1,40}}(\S+)"""
)


def assigned(text: str, lower: str) -> Iterator[TextSpan]:
    """Yield the spans of assigned secrets in a text.

    lower: the text in lower case, with the same offsets.
    """
    yield from (found.span(1) for found in _flags_and_netrc(text) if not is_placeholder(found[1]))
    for anchor in _ANCHORS:
        done = 0
        for word in anchor.finditer(lower):
            if word.start() >= done and (place := place_of(text, word.start(), word.end())) and (span := _value(place)):
                yield span
                done = span[1]


def _flags_and_netrc(text: str) -> Iterator[re.Match[str]]:
    if "--" in text:
        yield from (found for found in _FLAG.finditer(text) if not found[1].isalpha())
    if "login" in text or "netrc" in text:
        yield from _NETRC.finditer(text)


def _value(place: ValueSpan) -> TextSpan | None:
    """Return the span of the value; None if it is not a literal or not secret."""
    if place.operator == ">":
        return _element(place)
    if place.operator.startswith(("!", "==")) and place.kind is not Secrecy.PASSWORD:
        return None
    quote = QUOTE.match(place.text, place.at)
    return quoted(place, quote) if quote else unquoted(place)


def _element(place: ValueSpan) -> TextSpan | None:
    """Return the span of the text of an XML element; None if it is not secret."""
    end = place.text.find("</", place.at, place.at + 1_000)
    value = place.text[place.at : end]
    if not place.head.endswith("<") or end < 0 or not value or not value.split() or "<" in value:
        return None
    return None if is_placeholder(value) or is_type(value) else (place.at, end)
