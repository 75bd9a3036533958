"""Replace passages of a text file, keeping its byte order mark and its line ends. Pure."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from run_specialist.errors import ToolError
from run_specialist.redaction.mask import MASK

MOST = 2_000_000
"""Maximum size of a file that can be changed, before and after [bytes]."""
_BOM = codecs.BOM_UTF8.decode()


@dataclass(frozen=True, slots=True)
class Replacement:
    """A passage and the text that replaces it."""

    old: str
    new: str
    replace_all: bool = False


def decoded(data: bytes) -> str:
    """Return the text of a file; raises ToolError if it is not UTF-8, or binary."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"the file is not UTF-8 (byte {error.start + 1}), and only UTF-8 text can be changed") from None
    if "\0" in text:
        raise ToolError("it is a binary file; only text can be changed")
    return text


def encoded(text: str) -> bytes:
    """Return the bytes of a new content; raises ToolError for text that does not belong in a file."""
    if "\0" in text:
        raise ToolError("the new text contains a NUL character")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ToolError("the new text contains half of a surrogate pair, which is no character") from None
    if len(data) > MOST:
        raise ToolError(f"the file would have {len(data):,} bytes; at most {MOST:,} can be written")
    return data


def edited(text: str, replacements: Sequence[Replacement]) -> str:
    """Return a text after all replacements, one after another; raises ToolError if any is impossible.

    Line ends of the replacements are converted to those of the file.
    """
    for number, one in enumerate(replacements, 1):
        which = f"edit {number} of {len(replacements)}: " if len(replacements) > 1 else ""
        text = _replaced(text, one, which)
    return text


def rewritten(before: str | None, content: str) -> str:
    """Return the new content of a file, with the byte order mark and line ends of the old one.

    before: the current content; None for a new file.
    """
    if before is None:
        return content
    _check_mask(before, content, "")
    mark = _BOM if before.startswith(_BOM) and not content.startswith(_BOM) else ""
    return mark + (_with_crlf(content) if _is_crlf(before) else content)


def _replaced(text: str, one: Replacement, which: str) -> str:
    if not one.old:
        raise ToolError(f"{which}`old` is empty; copy the passage to be replaced")
    if one.old == one.new:
        raise ToolError(f"{which}`old` and `new` are the same, so nothing would change")
    _check_mask(text, one.new, which)
    for old, new in _variants(text, one):
        found = text.find(old)
        if found < 0:
            continue
        if text.find(old, found + 1) >= 0 and not one.replace_all:
            raise ToolError(
                f"{which}`old` occurs {max(text.count(old), 2)} times; add lines around it until it is unique, "
                "or set replace_all"
            )
        return text.replace(old, new)
    hint = "; omit the line numbers that `read` prints" if _has_line_numbers(one.old) else ""
    raise ToolError(f"{which}`old` is not in the file; copy it exactly, with its white space{hint}")


def _variants(text: str, one: Replacement) -> list[tuple[str, str]]:
    """Return the passage and its replacement as they are, and with the line ends of the file."""
    if _is_crlf(text):
        return [(_with_crlf(one.old), _with_crlf(one.new))]
    with_crlf = [(_with_crlf(one.old), _with_crlf(one.new))] if "\r\n" in text else []
    return [(one.old, one.new), *with_crlf]


def _is_crlf(text: str) -> bool:
    """Return whether all lines end with CR and LF."""
    count = text.count("\n")
    return bool(count) and count == text.count("\r\n")


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _check_mask(before: str, after: str, which: str) -> None:
    if MASK in after and MASK not in before:
        raise ToolError(
            f"{which}the new text contains {MASK}, which stands for a secret that the tools do not show; "
            "leave its line out of the change"
        )


def _has_line_numbers(text: str) -> bool:
    return all(line.partition("\t")[0].strip().isdecimal() and "\t" in line for line in text.rstrip("\n").split("\n"))
