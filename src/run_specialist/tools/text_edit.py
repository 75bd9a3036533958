"""Replace text in a file, and make unified diffs. Pure."""

import codecs
import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from run_specialist.errors import ToolError
from run_specialist.safety.credentials import MASK

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
    # The passage as it is, and with the line ends of the file.
    variants = [] if _is_crlf(text) else [(one.old, one.new)]
    if "\r\n" in text:
        variants.append((_with_crlf(one.old), _with_crlf(one.new)))
    for old, new in variants:
        found = text.find(old)
        if found < 0:
            continue
        if text.find(old, found + 1) >= 0 and not one.replace_all:
            raise ToolError(
                f"{which}`old` occurs {max(text.count(old), 2)} times; add lines around it until it is unique, "
                "or set replace_all"
            )
        return text.replace(old, new)
    lines = one.old.rstrip("\n").split("\n")
    is_numbered = all("\t" in line and line.partition("\t")[0].strip().isdecimal() for line in lines)
    hint = "; omit the line numbers that `read` prints" if is_numbered else ""
    raise ToolError(f"{which}`old` is not in the file; copy it exactly, with its white space{hint}")


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


# Maximum product of line counts for a full comparison; above it, lines are compared by position, or not at all.
_MOST_COMPARED = 4_000_000
_NO_NEWLINE = "\\ No newline at end of file\n"
_NEEDS_QUOTES = re.compile(r'["\\]')


@dataclass(frozen=True, slots=True)
class Diff:
    """The difference between two contents of a file."""

    text: str
    """With the header of git; empty if there is no difference."""
    added: int
    """Lines added."""
    removed: int
    """Lines removed."""

    @property
    def counts(self) -> str:
        """Both numbers, as `+3 -1`."""
        return f"+{self.added} -{self.removed}"


NO_DIFF = Diff("", 0, 0)


def diff_of(path: str, before: str | None, after: str | None) -> Diff:
    """Return the difference between two contents of a file.

    path: path relative to the root, with `/`.
    before, after: None if the file did not exist, or was removed.
    """
    if before == after:
        return NO_DIFF
    # Only a line feed ends a line, as for git.
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", text or "") for text in (before, after))
    groups = [*_Compared(old, new).get_grouped_opcodes()]
    changes = [change for group in groups for change in group if change[0] != "equal"]
    left, right = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    lines = [f"diff --git {left} {right}\n"]
    if before is None:
        lines.append("new file mode 100644\n")
    if after is None:
        lines.append("deleted file mode 100644\n")
    if changes:
        # A tab ends a name with blanks.
        end = "\t" if " " in path else ""
        lines.append(f"--- {'/dev/null' if before is None else left + end}\n")
        lines.append(f"+++ {'/dev/null' if after is None else right + end}\n")
    for group in groups:
        (_, begin, _, begin_new, _), (_, _, stop, _, stop_new) = group[0], group[-1]
        lines.append(f"@@ -{_range(begin, stop)} +{_range(begin_new, stop_new)} @@\n")
        for what, a, b, c, d in group:
            shown = [(" ", old[a:b])] if what == "equal" else [("-", old[a:b]), ("+", new[c:d])]
            for mark, part in shown:
                lines += [f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}" for line in part]
    return Diff("".join(lines), sum(d - c for *_, c, d in changes), sum(b - a for _, a, b, _, _ in changes))


def shortened(diff: str, most: int) -> str:
    """Return the first whole lines of a diff, with a line that says how much is omitted.

    most: maximum length without that line [characters].
    """
    if len(diff) <= most:
        return diff
    kept = diff[: diff.rfind("\n", 0, most) + 1] or diff[:most] + "\n"
    rest = diff[len(kept) :]
    return f"{kept}[{rest.count(chr(10)) or 1} more lines of the diff are left out]\n"


def _quoted(name: str) -> str:
    return '"' + _NEEDS_QUOTES.sub(r"\\\g<0>", name) + '"' if _NEEDS_QUOTES.search(name) else name


_Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class _Compared(difflib.SequenceMatcher[str]):
    """Finds changes without comparing the common lines at both ends, nor too many lines with each other."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__()
        self._old, self._new = old, new

    def get_opcodes(self) -> list[_Opcode]:
        """Return the changes, and what is equal between them."""
        old, new = self._old, self._new
        start, most = 0, min(len(old), len(new))
        while start < most and old[start] == new[start]:
            start += 1
        end = 0
        while end < most - start and old[-1 - end] == new[-1 - end]:
            end += 1
        stop, stop_new = len(old) - end, len(new) - end
        found: list[_Opcode] = [("replace", start, stop, start, stop_new)]
        if (stop - start) * (stop_new - start) <= _MOST_COMPARED:
            middle = difflib.SequenceMatcher(None, old[start:stop], new[start:stop_new]).get_opcodes()
            found = [(what, a + start, b + start, c + start, d + start) for what, a, b, c, d in middle]
        elif len(old) == len(new):
            found, begin = [], start
            for is_same, lines in itertools.groupby(range(start, stop), lambda at: old[at] == new[at]):
                begin, before = begin + len([*lines]), begin
                found.append(("equal" if is_same else "replace", before, begin, before, begin))
        whole: list[_Opcode] = [("equal", 0, start, 0, start), *found, ("equal", stop, len(old), stop_new, len(new))]
        return [one for one in whole if one[0] != "equal" or one[1] < one[2]]


def _range(begin: int, end: int) -> str:
    length = end - begin
    # An empty range is given by the line before it.
    return f"{begin + 1 if length else begin},{length}" if length != 1 else f"{begin + 1}"
