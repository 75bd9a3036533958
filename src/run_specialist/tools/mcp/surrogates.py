"""Repair of lone surrogates in JSON, for which the library would reject the entire message."""

import re

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES = re.compile(
    rb"""
    \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}  # surrogate pair
  | (\\u[dD][89a-fA-F][0-9a-fA-F]{2})                            # lone surrogate
  | \\.                                                          # any other escape
    """,
    re.VERBOSE | re.DOTALL,
)


def replace_lone_surrogates(line: bytes) -> bytes:
    """Replace lone surrogates in a line of JSON with U+FFFD.

    They come from programs that truncate UTF-16 strings, e.g. in JavaScript, in the middle of an emoji.
    """
    if not _SURROGATE.search(line):
        return line
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)
