"""Locate the value that is assigned to the name of a secret."""

import re
from dataclasses import dataclass

from run_specialist.redaction.line_numbers import NUMBERED
from run_specialist.redaction.secret_names import Secrecy, kind_of

_LONGEST_NAME = 64
_LONGEST_HEAD = 250
"""Length of the text before a name that is examined [characters]."""

SUFFIX = r"(?:[_-]?(?:\d{1,2}|base|prod|production|dev|test|staging|live|old|new))?"
"""Matches an optional suffix after the last word of a name."""
_OPERATOR = re.compile(
    rf"""(?xi) {SUFFIX} (?P<close> [\\"'`\]*]{{0,4}} ) (?P<before> [ \t]{{0,20}} (?: \\\r?\n [ \t]{{0,20}} )? )
    (?P<operator> := | => | \?= | !==? | ={{1,3}} | >
      | : [ ]{{0,4}} [a-z_][\w.]{{0,40}} (?: \[ [^\]\n=]{{0,40}} \] )? \??  (?: [ ]?\|[ ]? [a-z_][\w.]{{0,40}} )?
          [ \t]{{0,4}} = (?!=)
      | : (?![:=]) )
    (?P<after> [ \t]{{0,20}}
      (?: \\\r?\n [ \t]{{0,40}} | [|>][+-]? [ \t]{{0,4}} \r?\n {NUMBERED} [ \t]{{1,40}}
        | \r?\n [ \t]{{0,40}} (?= ["'] ) )? )"""
)
_LINE_START = re.compile(
    rf"""{NUMBERED}[ \t]*(?:[-+>$][ \t]|export |set |env |ENV |ARG |declare -x |//\S{{1,200}}?:)*["']?"""
)
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\n]*)?(?=\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """The position of a value, with the text before it."""

    text: str
    name: str
    kind: Secrecy
    head: str
    """Text before the name on its line."""
    operator: str
    tight: bool
    """True if there are no blanks around the operator."""
    quoted: bool
    """True if the name is in quotes."""
    at: int
    """Start of the value."""

    @property
    def starts_line(self) -> bool:
        """True if only a line number, a dash, a quote or a keyword such as `export` precedes the name."""
        return _LINE_START.fullmatch(self.head) is not None

    @property
    def is_environment(self) -> bool:
        """True if the assignment looks like one in a shell or an environment file."""
        return self.name.isupper() and (
            (self.operator == "=" and self.tight) or (self.operator == ":" and self.starts_line)
        )

    def ends_line(self, end: int) -> bool:
        """Return whether at most a comment follows on the line."""
        return _REST_OF_LINE.match(self.text, end) is not None


def place_of(text: str, start: int, end: int) -> ValueSpan | None:
    """Return the value assigned to a name of a secret; None if the name is harmless or nothing is assigned.

    start, end: span of the word that ends the name, such as `token`.
    """
    found = _OPERATOR.match(text, end)
    head = text[max(0, start - _LONGEST_NAME) : start]
    begun = start - (len(head) - len(head.rstrip(_OF_NAMES)))
    name = text[begun:end]
    kind = kind_of(name)
    if found is None or kind is None:
        return None
    line = text.rfind("\n", max(0, begun - _LONGEST_HEAD), begun) + 1
    head = text[max(line, begun - _LONGEST_HEAD) : begun]
    tight = not found["before"] and not found["after"]
    operator = "=" if found["operator"].startswith(":") and found["operator"].endswith("=") else found["operator"]
    quoted = found["close"] != ""
    return ValueSpan(text, name, kind, head, operator, tight, quoted, found.end())


_OF_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
