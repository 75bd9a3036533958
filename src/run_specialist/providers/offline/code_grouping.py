"""Group the known lines of a code file into blocks, each with the definitions around it."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from run_specialist.providers.offline.code_block import CodeBlock
from run_specialist.providers.offline.definitions import defined

_COMMENT = re.compile(r"\s*(?:#(?:[\s#!:]|$)|//|/\*|\*(?:\s|/|$)|--\s|;;)")
_DOCSTRING = re.compile(r"\s*[rbuRBU]?(?:\"\"\"|''')")
_TRIPLE = re.compile(r"\"\"\"|'''")
_CLOSING = re.compile(r"\s*(?:[)\]}]|end\b)")
_LONGEST, _ENOUGH = 700, 240
"""Length at which a block always ends, and at which it ends at the next blank line [characters]."""
_FAR = 80
"""Number of unknown lines after which a method is no longer assumed to continue."""
_TAB = 4
SeenLine = tuple[int, str, int]
"""Line number, text, and the number of the result that showed it: a quote must not combine two results."""


@dataclass
class _Scope:
    """A definition while its lines are collected."""

    indent: int
    line: int
    name: str
    outer: tuple[str, ...]
    doc: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Placed:
    number: int
    text: str
    origin: int
    scope: _Scope
    is_comment: bool


def code_blocks(path: str, lines: Sequence[SeenLine]) -> Iterator[CodeBlock]:
    """Group the known lines of a code file."""
    known = {number for number, _, _ in lines}
    group: list[_Placed] = []
    reader = _ScopeTracker(PurePosixPath(path).suffix.casefold())
    for placed in (reader.place(*line) for line in lines):
        if group and not _joins(group, placed):
            yield from _block(path, group, known)
            group = []
        group.append(placed)
    yield from _block(path, group, known)


def _joins(group: Sequence[_Placed], new: _Placed) -> bool:
    """Return whether a line belongs to a block."""
    last = group[-1]
    if new.number != last.number + 1 or new.origin != last.origin:
        return False
    if new.scope is not last.scope or new.is_comment != last.is_comment:
        return False
    size = sum(len(placed.text) + 1 for placed in group)
    return size < (_LONGEST if last.text.strip() else _ENOUGH)


def _block(path: str, group: Sequence[_Placed], known: AbstractSet[int]) -> Iterator[CodeBlock]:
    kept = list(group)
    while kept and not kept[-1].text.strip():
        kept.pop()
    while kept and not kept[0].text.strip():
        kept.pop(0)
    if not kept or not any(re.search(r"\w", placed.text) for placed in kept):
        return
    scope = kept[0].scope
    yield CodeBlock(
        path,
        kept[0].number,
        "\n".join(placed.text for placed in kept),
        headings=(*scope.outer, scope.name) if scope.name else (),
        around="",
        is_code=True,
        name=scope.name,
        start=scope.line,
        outer=scope.outer,
        doc="\n".join(scope.doc),
        is_comment=kept[0].is_comment,
        is_unread=len(group) == 1 and kept[0].number == scope.line and scope.line + 1 not in known,
    )


class _ScopeTracker:
    """Finds the innermost definition around each line, from the indentation of the lines before it."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._scopes = [_Scope(-1, 0, "", ())]
        self._comments: list[str] = []
        self._quoted = ""
        self._before = 0

    def place(self, number: int, text: str, origin: int) -> _Placed:
        """Return the next known line with its definition."""
        if number > self._before + 1:
            self._quoted, self._comments = "", []
        if number > self._before + _FAR:
            del self._scopes[2:]
        self._before = number
        was_quoted, self._quoted = bool(self._quoted), _quoted(self._quoted, text)
        is_docstring = not was_quoted and bool(_DOCSTRING.match(text))
        is_comment = was_quoted or is_docstring or bool(_COMMENT.match(text))
        if text.strip() and (is_docstring or not is_comment):
            self._leave(text)
        if is_docstring or (was_quoted and not self._comments):
            self._scopes[-1].doc.append(text)
        elif is_comment:
            self._comments.append(text)
        elif text.strip():
            self._enter(number, text)
        return _Placed(number, text, origin, self._scopes[-1], is_comment)

    def _leave(self, text: str) -> None:
        """Leave the definitions that end before a line."""
        indent = _indent(text)
        least = indent + 1 if _CLOSING.match(text) else indent
        while self._scopes[-1].indent >= least:
            self._scopes.pop()

    def _enter(self, number: int, text: str) -> None:
        """Enter the definition that a line begins, if any; the comments above belong to it."""
        if name := defined(text, self._suffix):
            outer = tuple(scope.name for scope in self._scopes[1:])
            self._scopes.append(_Scope(_indent(text), number, name, outer, self._comments))
        else:
            self._scopes[-1].doc += self._comments
        self._comments = []


def _indent(text: str) -> int:
    expanded = text.expandtabs(_TAB)
    return len(expanded) - len(expanded.lstrip())


def _quoted(opened: str, text: str) -> str:
    """Return the end of the multi-line text or comment that is open after this line; empty if none is."""
    if opened == "*/" or (not opened and text.lstrip().startswith("/*")):
        return "" if "*/" in text else "*/"
    for mark in _TRIPLE.findall(text):
        if not opened:
            opened = mark
        elif mark == opened:
            opened = ""
    return opened
