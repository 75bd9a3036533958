"""Decode the bytes of a file to text with LF line ends."""

import codecs
import re

from run_specialist.specialist.problems import START, Position, Problems

# UTF-32 comes first because its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_LINE_END = re.compile(r"\r\n?|\n")
# NUL and lone surrogates, which neither databases nor model APIs accept.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def decode(data: bytes | str, problems: Problems) -> str:
    """Return the text of a file; all repairs except of line ends are reported as warnings."""
    text = data if isinstance(data, str) else _to_text(data, problems)
    if text.startswith("\ufeff"):
        problems.warn(START, "starts with a byte order mark, which is ignored")
        text = text.lstrip("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if bad := _UNUSABLE.search(text):
        problems.warn(place_of(text, bad.start()), f"contains unusable characters, replaced by {_REPLACEMENT}")
        text = _UNUSABLE.sub(_REPLACEMENT, text)
    return text


def place_of(text: str, index: int) -> Position:
    """Return the position of a character in a text with LF line ends."""
    return Position(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def _to_text(data: bytes, problems: Problems) -> str:
    for mark, encoding, name in _MARKS:
        if data.startswith(mark):
            problems.warn(START, f"is {name}; other programs expect UTF-8")
            return data[len(mark) :].decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = _LINE_END.split(data[: error.start].decode("utf-8", "replace"))
        place = Position(len(before), len(before[-1]) + 1)
        problems.warn(place, f"is not valid UTF-8 here ({error.reason}); invalid bytes are replaced by {_REPLACEMENT}")
        return data.decode("utf-8", "replace")
