"""Find secrets among quoted literals."""

import re

from run_specialist.redaction.literals import is_path, is_placeholder, is_token_like, is_type
from run_specialist.redaction.mask import TextSpan
from run_specialist.redaction.secret_names import Secrecy, ends_like_a_name
from run_specialist.redaction.value_span import ValueSpan

_LEAST = 3
"""Minimum length of a key or token; shorter values are samples [characters]."""
_SAMPLES = {"test", "dummy", "fake", "example", "none-needed", "not-needed"}
QUOTE = re.compile(r"""(?i)(?P<kind>[bruf@$]{0,2})(?P<quote>\\{0,3}(?:"{3}|'{3}|["'`]))""")


def quoted(place: ValueSpan, quote: re.Match[str]) -> TextSpan | None:
    """Return the span of the literal after an opening quote; None if it is not a secret."""
    if _closes(place, quote):
        return None
    start, end = quote.end(), _end_of_quote(place.text, quote.end(), quote["quote"])
    value = place.text[start:end]
    if "\n" in value and len(quote["quote"]) > 1:
        # A document, which may contain other names and values.
        return None
    formatted = "%s" in value or (
        "{" in value and ("f" in quote["kind"].lower() or "${" in value or "#{" in value or quote["quote"] == "`")
    )
    if formatted or is_placeholder(value) or is_type(value) or _repeats(place.name, value):
        return None
    return (start, end) if _is_secret_literal(place, value) else None


def _closes(place: ValueSpan, quote: re.Match[str]) -> bool:
    """Return whether a quote closes the string that contains the name, as in `getpass("Password: ")`."""
    follows = place.text[quote.end() : quote.end() + 1]
    if place.quoted or (follows and follows in "),;]}"):
        return not place.quoted
    return place.head.count(quote["quote"]) % 2 == 1 and (not follows or follows in ":\r\n ")


def _is_secret_literal(place: ValueSpan, value: str) -> bool:
    blank = bool(value.split()[1:]) or value != value.strip()
    if place.kind is Secrecy.PASSWORD:
        if blank:
            # A label, such as `"password": "Your password"`.
            return (
                not ends_like_a_name(value.rstrip(" :.?!"))
                and (place.operator == "=" or any(letter.isdigit() for letter in value))
                and not value.rstrip().endswith((".", ":", "?"))
            )
        return not (value.isupper() and "_" in value and ends_like_a_name(value)) and _ALNUM.search(value) is not None
    if blank or len(value) < _LEAST or value in _SAMPLES or ends_like_a_name(value) or is_path(value):
        return False
    return place.kind is Secrecy.SECRET or place.is_environment or is_token_like(value)


def _repeats(name: str, value: str) -> bool:
    """Return whether a value repeats its name, as in constants and word lists."""
    plain = _JOINTS.sub("", value.lower())
    parts = name.lower().rpartition(".")[2].split("_")
    return plain in {_JOINTS.sub("", name.lower()), "".join(parts), parts[-1]}


_ALNUM = re.compile(r"\w")
_JOINTS = re.compile(r"[\s_.-]+")


def _end_of_quote(text: str, start: int, quote: str) -> int:
    """Return the end of a quoted text: before the closing quote, or at the end of the line if there is none."""
    at = start
    while True:
        close = text.find(quote, at)
        line = text.find("\n", at, close if close >= 0 else len(text)) if len(quote.lstrip("\\")) == 1 else -1
        if line >= 0 and text[line - 1] != "\\":
            return line - (text[line - 1] == "\r")
        if line >= 0:
            at = line + 1
            continue
        if close < 0:
            return len(text)
        escapes = close - len(text[start:close].rstrip("\\")) - start
        if escapes % 2 == 0 or quote.startswith("\\"):
            return close
        at = close + 1
