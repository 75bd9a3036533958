"""Group the known lines of a code file into blocks that can be quoted, each with the definitions around it."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from run_specialist.providers.offline.definitions import defined
from run_specialist.providers.offline.quotable import Quotable
from run_specialist.providers.offline.similarity import roots

_COMMENT = re.compile(r"\s*(?:#(?:[\s#!:]|$)|//|/\*|\*(?:\s|/|$)|--\s|;;)")
_TRIPLES = ('"""', "'''")
_CLOSING = re.compile(r"\s*(?:[)\]}]|end\b)")
_ACTION = re.compile(
    r"\b(?:for|while|loop|if|elif|else|switch|case|match|try|except|catch|raise|throw|return|yield|await|with|until)\b"
    r"|[\w\])]\("
)
_STUB = re.compile(r"\s*(?:pass|\.\.\.|raise NotImplementedError.*|return;?)\s*(?:#.*)?$")
_TEST = re.compile(
    r"(?i)(?:^|/)(?:tests?|__tests__|spec|specs|testing|fixtures?|examples?|samples?|bench\w*|docs?|docs_src|scripts?|"
    r"vendor\w*|third_party|node_modules|migrations)/|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*[._-](?:test|spec)s?\.\w+)$"
)
_CONSTRUCTORS = frozenset({"__init__", "constructor", "__repr__", "__str__", "__eq__", "toString"})
_ACTIONS = (0.5, 0.8, 1.0)
"""Factor on the score of a block, by its number of lines that do something."""
_COMMENTS, _CONSTRUCTOR, _IN_TESTS = 0.5, 0.85, 0.45
_DOES, _MOST_DOES, _INSIDE = 0.3, 5, 1.5
_LONGEST, _ENOUGH = 700, 240
"""Length at which a block ends: anyway; at the next blank line [characters]."""
_TAB = 4
SeenLine = tuple[int, str, int]
"""Line number, text, and a number for the result that showed it: a quote must not combine two."""


@dataclass(frozen=True)
class Words:
    """The roots of the words in a text."""

    roots: frozenset[str]
    joined: str
    """The roots in one string, each after a space."""

    @staticmethod
    @lru_cache(maxsize=8192)
    def of(text: str) -> "Words":
        """Return the words of a text; paths and dotted names are split."""
        found = roots(text.replace("/", " "))
        return Words(found, "".join(f" {root}" for root in found))


@dataclass(frozen=True, eq=False)
class CodeBlock(Quotable):
    """Consecutive lines of one definition, or between definitions."""

    name: str = ""
    """Name of the innermost definition; empty outside of any."""
    start: int = 0
    """Number of the line where the innermost definition begins; 0 outside of any."""
    outer: tuple[str, ...] = ()
    """Names of the definitions around the innermost one."""
    doc: str = ""
    """Comments and docstring of the innermost definition, as far as they are known."""
    is_comment: bool = False
    is_unread: bool = False
    """True for a definition of which only the first line is known."""

    @cached_property
    def words(self) -> "Words":
        """Words of the block."""
        return Words.of(self.text)

    @cached_property
    def name_words(self) -> "Words":
        """Words in the name of the innermost definition."""
        return Words.of(self.name)

    @cached_property
    def outer_words(self) -> "Words":
        """Words in the names of the definitions around the block, and in its path."""
        return Words.of(" ".join([self.name, *self.outer, PurePosixPath(self.path).with_suffix("").as_posix()]))

    @cached_property
    def doc_words(self) -> "Words":
        """Words in the comments of the definition."""
        return Words.of(self.doc)

    @cached_property
    def known(self) -> dict[str, float]:
        """The confidence that the block is about a term, by the term's text, as far as it was calculated."""
        return {}

    @cached_property
    def heading_roots(self) -> frozenset[str]:
        """Roots of the words in the names of the definitions around the block, and in its path."""
        return self.outer_words.roots

    @cached_property
    def form(self) -> float:
        """A factor for how likely the block shows a behaviour: highest for statements in a function."""
        if self.is_comment:
            factor = _COMMENTS
        else:
            lines = self.text.split("\n") if self.start else []
            body = [line for line in lines if not _STUB.match(line) and not defined(line, self.suffix)]
            factor = _ACTIONS[min(sum(map(bool, map(_ACTION.search, body))), len(_ACTIONS) - 1)]
            factor *= _CONSTRUCTOR if self.name in _CONSTRUCTORS else 1.0
        return factor * (_IN_TESTS if _TEST.search(self.path) else 1.0)

    @property
    def suffix(self) -> str:
        """Suffix of the path, in lower case."""
        return PurePosixPath(self.path).suffix.casefold()


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


def shape(text: str) -> float:
    """Rate a piece of code by how much it does, and whether it begins inside a statement."""
    lines = text.strip().split("\n")
    inside = len(lines) > 1 and lines[0].rstrip().endswith(",") or lines[0].startswith((")", "]", "}", "else", "except"))
    return _DOES * min(sum(map(bool, map(_ACTION.search, lines))), _MOST_DOES) - (_INSIDE if inside else 0.0)


def code_blocks(path: str, lines: Sequence[SeenLine]) -> Iterator[CodeBlock]:
    """Group the known lines of a code file."""
    known = {number for number, _, _ in lines}
    group: list[_Placed] = []
    for placed in _placed(lines, PurePosixPath(path).suffix.casefold()):
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


def _placed(lines: Sequence[SeenLine], suffix: str) -> Iterator[_Placed]:
    """Yield each known line with the innermost definition around it, which its indentation tells."""
    module = _Scope(-1, 0, "", ())
    scopes = [module]
    comments: list[str] = []
    quoted, before = "", 0
    for number, text, origin in lines:
        if number > before + 1:
            quoted, comments = "", []
        before = number
        was_quoted = bool(quoted)
        quoted = _quoted(quoted, text)
        is_comment = was_quoted or bool(_COMMENT.match(text)) or _is_docstring(text)
        indent = _indent(text)
        if text.strip() and not was_quoted and not (is_comment and not _is_docstring(text)):
            while len(scopes) > 1 and (
                indent < scopes[-1].indent or (indent == scopes[-1].indent and not _CLOSING.match(text))
            ):
                scopes.pop()
            if not is_comment and (name := defined(text, suffix)):
                outer = tuple(scope.name for scope in scopes[1:])
                scopes.append(_Scope(indent, number, name, outer, comments))
        if _is_docstring(text) or quoted in _TRIPLES or (was_quoted and not comments):
            scopes[-1].doc.append(text)
        elif is_comment:
            comments.append(text)
        elif text.strip():
            if scopes[-1].line != number:
                scopes[-1].doc += comments
            comments = []
        yield _Placed(number, text, origin, scopes[-1], is_comment)


def _indent(text: str) -> int:
    expanded = text.expandtabs(_TAB)
    return len(expanded) - len(expanded.lstrip())


def _is_docstring(text: str) -> bool:
    return re.match(r"\s*[rbuRBU]?(?:\"\"\"|''')", text) is not None


def _quoted(opened: str, text: str) -> str:
    """Return the quotes of the multi-line text or comment that is open after this line; empty if none is."""
    if opened == "*/":
        return "" if "*/" in text else opened
    if not opened and text.lstrip().startswith("/*"):
        return "" if "*/" in text else "*/"
    for mark in re.findall('|'.join(_TRIPLES), text):
        opened = mark if not opened else "" if mark == opened else opened
    return opened
