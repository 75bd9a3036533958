"""Halves of signs in JSON, which the library refuses with the whole message around them."""

import re

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES = re.compile(
    rb"""
    \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}  # both halves of a sign
  | (\\u[dD][89a-fA-F][0-9a-fA-F]{2})                            # one half alone
  | \\.                                                          # any other escape
    """,
    re.VERBOSE | re.DOTALL,
)


def whole_signs(line: bytes) -> bytes:
    """Return a line of JSON with a replacement for each half of a sign.

    Programs that count in UTF-16, as all in JavaScript do, cut texts in the middle of an emoji and send what is left.
    """
    if not _HALF.search(line):
        return line
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)
