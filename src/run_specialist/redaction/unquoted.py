"""Find secrets among unquoted values."""

import re

from run_specialist.redaction.literals import is_expression, is_path, is_placeholder, is_token_like, is_type
from run_specialist.redaction.mask import TextSpan
from run_specialist.redaction.secret_names import Secrecy, ends_like_a_name
from run_specialist.redaction.value_span import ValueSpan

_NUMBER = 4
"""Minimum number of digits of a numeric password; shorter numbers are lengths or counts."""
_SHORT = 6
"""Minimum length of a password in code and prose; shorter words with a digit are mostly variables [characters]."""
_WORD = re.compile(r"""[^\s"'`,;<>(){}\[\]|&]{1,300}""")
_UNSPACED = re.compile(r"""[^\s"'`]{1,300}""")
_LONG = re.compile(r"""[^\s"'`,;<>(){}\[\]|&]*""")
"""Matches the rest of a long word; used only once its start is known to be secret."""


def unquoted(place: ValueSpan) -> TextSpan | None:
    """Return the span of an unquoted value; None if it is not a secret."""
    shell = place.is_environment and place.tight and place.starts_line
    found = (_UNSPACED if shell else _WORD).match(place.text, place.at)
    if found is None:
        return None
    value, end = found[0], found.end()
    if (
        is_placeholder(value)
        or is_type(value)
        or place.text.startswith(("(", "[", "{"), end)
        or (shell and _CALL.match(value))
    ):
        return None
    if not _is_secret_word(place, value.rstrip(".:\\"), end):
        return None
    if rest := _LONG.match(place.text, end):
        end = rest.end()
    if rest := _CONTINUED.match(place.text, end):
        end = rest.end()
    return place.at, end - (len(value) - len(value.rstrip(".:")))


_CALL = re.compile(r"[\w.]+[(\[]")
_CONTINUED = re.compile(r"""(?:(?<=\\)\r?\n[ \t]{0,40}[^\s"'`]+)+""")


def _is_secret_word(place: ValueSpan, value: str, end: int) -> bool:  # noqa: PLR0911 - one for each notation
    """Return whether an unquoted value is a secret, not a variable, a type or prose."""
    if value.isdigit():
        return place.kind is Secrecy.PASSWORD and len(value) >= _NUMBER
    if place.kind is not Secrecy.PASSWORD and (ends_like_a_name(value) or is_path(value)):
        return False
    if place.is_environment:
        if place.operator == ":":
            return place.ends_line(end)
        return place.head.rstrip()[-1:] not in {",", "("} or not is_expression(value)
    before = place.head[-1:]
    if before in {"?", "&", "="} and place.operator == "=" and place.tight:
        return len(value) >= _NUMBER
    if place.kind is not Secrecy.PERHAPS and _is_configuration(place, end):
        return not (is_expression(value) and ends_like_a_name(value))
    if is_token_like(value):
        return True
    return place.kind is Secrecy.PASSWORD and len(value) >= _SHORT and _is_no_variable(value)


def _is_configuration(place: ValueSpan, end: int) -> bool:
    """Return whether the value is in YAML, an INI file or a connection string, where a word is always a literal."""
    if place.ends_line(end) and place.starts_line:
        spaced = place.operator == ":" and place.text[place.at - 1 : place.at] in {" ", "\t"}
        return spaced or (place.operator == "=" and place.tight and place.head.strip(" \t") == place.head)
    if place.operator != "=" or not place.tight or (place.kind is not Secrecy.PASSWORD and not place.name[0].isupper()):
        return False
    after, previous = place.text[end : end + 1], place.head.rstrip()[-1:]
    if after == ";" or place.head.endswith(";"):
        return place.name[0].isupper() or "=" in place.head
    return (
        place.head.endswith(" ")
        and previous not in {"", ",", "("}
        and after in {"", " ", "\n", '"', "'"}
        and ("=" in place.head)
    )


def _is_no_variable(value: str) -> bool:
    return (any(letter.isdigit() for letter in value) and not is_expression(value)) or _ODD.search(value) is not None


_ODD = re.compile(r"[!@#%^*~?]|^[A-Za-z]{3,}\d+$")
