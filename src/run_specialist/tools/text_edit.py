"""Replace text in a file, and make unified diffs. Pure."""

import codecs
import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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


_CONTEXT = 3
"""Number of unchanged lines before and after each change."""
_MOST_COMPARED = 4_000_000
"""Maximum product of line counts for a full comparison; above it, lines are compared by position, or not at all."""
_NO_NEWLINE = "\\ No newline at end of file\n"
_NEEDS_QUOTES = re.compile(r'["\\]')
_MODE = "100644"

Opcode = tuple[str, int, int, int, int]
"""As in `difflib`: what to do, and the ranges of lines before and after."""


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
    old, new = _lines(before or ""), _lines(after or "")
    changes = _opcodes(old, new)
    body = "".join(_hunks(old, new, changes))
    removed = sum(end - begin for what, begin, end, _, _ in changes if what != "equal")
    added = sum(end - begin for what, _, _, begin, end in changes if what != "equal")
    header = _header(path, is_new=before is None, is_removed=after is None, has_hunks=bool(body))
    return Diff(header + body, added, removed)


def shortened(diff: str, most: int) -> str:
    """Return the first whole lines of a diff, with a line that says how much is omitted.

    most: maximum length without that line [characters].
    """
    if len(diff) <= most:
        return diff
    kept = diff[: diff.rfind("\n", 0, most) + 1] or diff[:most] + "\n"
    rest = diff[len(kept) :]
    return f"{kept}[{rest.count(chr(10)) or 1} more lines of the diff are left out]\n"


def _header(path: str, *, is_new: bool, is_removed: bool, has_hunks: bool) -> str:
    old, new = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    lines = [f"diff --git {old} {new}"]
    if is_new:
        lines.append(f"new file mode {_MODE}")
    if is_removed:
        lines.append(f"deleted file mode {_MODE}")
    if has_hunks:
        # A tab ends a name with blanks.
        end = "\t" if " " in path else ""
        lines += [f"--- {'/dev/null' if is_new else old + end}", f"+++ {'/dev/null' if is_removed else new + end}"]
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> str:
    return '"' + _NEEDS_QUOTES.sub(r"\\\g<0>", name) + '"' if _NEEDS_QUOTES.search(name) else name


def _lines(text: str) -> list[str]:
    """Return the lines with their ends; only a line feed ends a line, as for git."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """Return the changes, found without comparing the common lines at both ends."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    found: Iterable[Opcode] = [("replace", 0, len(middle_old), 0, len(middle_new))]
    if len(middle_old) * len(middle_new) <= _MOST_COMPARED:
        found = difflib.SequenceMatcher(None, middle_old, middle_new).get_opcodes()
    elif len(middle_old) == len(middle_new):
        found = _by_position(middle_old, middle_new)
    return [(what, a + start, b + start, c + start, d + start) for what, a, b, c, d in found]


def _by_position(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    begin, count = 0, len(old)
    for at in range(1, count + 1):
        if at == count or (old[at] == new[at]) != (old[begin] == new[begin]):
            yield ("equal" if old[begin] == new[begin] else "replace", begin, at, begin, at)
            begin = at


def _hunks(old: Sequence[str], new: Sequence[str], changes: Sequence[Opcode]) -> Iterator[str]:
    for group in _grouped(changes):
        first, last = group[0], group[-1]
        lead = min(_CONTEXT, first[1])
        trail = min(_CONTEXT, len(old) - last[2])
        before, after = _range(first[1] - lead, last[2] + trail), _range(first[3] - lead, last[4] + trail)
        yield f"@@ -{before} +{after} @@\n"
        yield from _shown(" ", old[first[1] - lead : first[1]])
        at = first[1]
        for _, old_begin, old_end, new_begin, new_end in group:
            yield from _shown(" ", old[at:old_begin])
            yield from _shown("-", old[old_begin:old_end])
            yield from _shown("+", new[new_begin:new_end])
            at = old_end
        yield from _shown(" ", old[at : at + trail])


def _grouped(changes: Sequence[Opcode]) -> Iterator[list[Opcode]]:
    """Yield the changes, grouped if their context would overlap."""
    group: list[Opcode] = []
    for change in changes:
        if change[0] == "equal":
            continue
        if group and change[1] - group[-1][2] > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _range(begin: int, end: int) -> str:
    length = end - begin
    # An empty range is given by the line before it.
    return f"{begin + 1 if length else begin},{length}" if length != 1 else f"{begin + 1}"


def _shown(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}"
