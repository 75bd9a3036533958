"""Split prose and code into units that can be quoted."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import PurePosixPath

from run_specialist.providers.offline_findings import Findings, roots

_HEADING = re.compile(r"#{1,6}\s+\S")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|[^\w\s!-~]{1,2})\s+")
_ALONE = re.compile(r"\s*[|>]|\s*(?:```|~~~)|\s{4,}\S")
_FENCE = re.compile(r"\s*(?:```|~~~)\s*(\S*).*")
_RULE = re.compile(r"\s*\|[\s:|-]*-[\s:|-]*")
_EMPTY = re.compile(r"[\W_]*")
_MOST_LINES = 8
_LABEL = 7
_GAP = 3
_CAPITALS = re.compile(r"\b[A-Z]{2,4}\b")
_NEAR = 3


@dataclass(frozen=True, eq=False)
class Quotable:
    """Consecutive lines of a file that belong together."""

    path: str
    line: int
    """Number of the first line."""
    text: str
    """Verbatim lines, joined by newlines."""
    headings: tuple[str, ...]
    """Headings above the unit, if they were seen."""
    around: str
    """Lines just before and after the unit."""
    is_heading: bool = False
    is_label: bool = False
    """True if the unit introduces what follows: the line before a list, a table header."""
    is_code: bool = False
    """True inside a fenced code block."""

    @property
    def end(self) -> int:
        """Number of the last line."""
        return self.line + self.text.count("\n")

    @cached_property
    def roots(self) -> frozenset[str]:
        """Roots of the unit's words."""
        return roots(self.text)

    @cached_property
    def capitals(self) -> frozenset[str]:
        """The unit's words in capital letters."""
        return frozenset(_CAPITALS.findall(self.text))

    @cached_property
    def root_list(self) -> str:
        """The roots in one string, each after a space."""
        return "".join(f" {root}" for root in self.roots)

    @cached_property
    def near_roots(self) -> frozenset[str]:
        """Roots of the words in the unit, in adjacent lines, in its headings and its path."""
        return self.roots | roots(self.around) | self.heading_roots

    @cached_property
    def label_roots(self) -> frozenset[str]:
        """Roots of the words in the nearest heading or label."""
        return roots(self.headings[-1]) if self.headings else frozenset()

    @cached_property
    def heading_roots(self) -> frozenset[str]:
        """Roots of the words in the unit's headings and its path."""
        return roots(" ".join([*self.headings, self.path.replace("/", " ")]))


def units(path: str, lines: Mapping[int, Sequence[str]]) -> Iterator[Quotable]:
    """Group the known lines of a file into units."""
    headings: dict[int, str] = {}
    code = _fenced(lines)
    led = False
    for numbers in _groups(lines):
        text = "\n".join(lines[number][0] for number in numbers)
        first, last = numbers[0], numbers[-1]
        if led and not (_ITEM.match(text) or _ALONE.match(text)):
            headings.pop(_LABEL, None)
        level = 0 if first in code else _level(text, lines.get(last + 1, [""])[0])
        is_heading = 0 < level < _LABEL
        if level:
            headings = {depth: heading for depth, heading in headings.items() if depth < level}
        near = [*range(first - _NEAR, first), *range(last + 1, last + 1 + _NEAR)]
        around = "\n".join(part for number in near for part in lines.get(number, ()))
        # If only parts of a line are known, each part is a unit.
        for part in lines[first] if first == last else [text]:
            yield Quotable(
                path, first, part, tuple(headings.values()), around, is_heading, level == _LABEL, first in code
            )
        if level:
            headings[level] = text
        # A label introduces one paragraph, or the list or table below it.
        led = level != _LABEL


def _fenced(lines: Mapping[int, Sequence[str]]) -> set[int]:
    """Return the numbers of the lines in fenced code blocks, if the fences were seen."""
    code: set[int] = set()
    opened, before, begin = False, 0, 0
    for number in sorted(lines):
        # A gap may have closed a fence. Small gaps do not count: search results omit blank lines.
        if number - before > _GAP:
            opened, begin = False, number
        fence = _FENCE.fullmatch(lines[number][0])
        if fence and not (opened or fence[1] or lines.get(number + 1, [""])[0].strip()):
            # A blank line follows, so this fence closes a block that was opened before the first known line.
            code.update(line for line in lines if begin <= line <= number)
        elif fence:
            opened = not opened
        if fence or opened:
            code.add(number)
        if fence:
            begin = number + 1
        before = number
    return code


def _level(text: str, below: str) -> int:
    """Return the level of a heading, `_LABEL` for a line that introduces what follows, 0 for any other line."""
    if _HEADING.match(text):
        return text.index(" ")
    leads = text.rstrip().rstrip("*_").endswith((":", "?")) or _RULE.fullmatch(below)
    return _LABEL if "\n" not in text and leads else 0


def _groups(lines: Mapping[int, Sequence[str]]) -> Iterator[list[int]]:
    """Yield the numbers of lines that belong together, without lines that contain no words."""
    group: list[int] = []
    for number in sorted(lines):
        text = lines[number][0]
        joins = (
            group
            and number == group[-1] + 1
            and len(group) < _MOST_LINES
            and len(lines[number]) == 1 == len(lines[group[-1]])
            and not (_HEADING.match(text) or _ITEM.match(text) or _ALONE.match(text))
            and not (_HEADING.match(lines[group[-1]][0]) or _ALONE.match(lines[group[-1]][0]))
        )
        if _EMPTY.fullmatch(text):
            joins = False
        if group and not joins:
            yield group
            group = []
        if not _EMPTY.fullmatch(text):
            group.append(number)
    if group:
        yield group


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
_COMMENTS, _CONSTRUCTOR, _IN_TESTS = 0.5, 0.85, 0.4
"""Factors for comments, for what every object does, for files beside the program itself."""
_DOES, _MOST_DOES, _INSIDE = 0.3, 5, 1.5
"""Rating of a line that does something, maximum number of such lines, deduction for starting inside a statement."""
_MIDDLE = (")", "]", "}", "else", "except")


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
        """Cache of the confidence that the block is about a term, by the term's text."""
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


def shape(text: str) -> float:
    """Rate a piece of code by the number of lines that do something, and by whether it starts inside a statement."""
    lines = text.strip().split("\n")
    inside = (len(lines) > 1 and lines[0].rstrip().endswith(",")) or lines[0].startswith(_MIDDLE)
    return _DOES * min(sum(map(bool, map(_ACTION.search, lines))), _MOST_DOES) - (_INSIDE if inside else 0.0)


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
            # It ends the definitions above that are indented as much or more.
            indent = _indent(text)
            least = indent + 1 if _CLOSING.match(text) else indent
            while self._scopes[-1].indent >= least:
                self._scopes.pop()
        if is_docstring or (was_quoted and not self._comments):
            self._scopes[-1].doc.append(text)
        elif is_comment:
            self._comments.append(text)
        elif text.strip():
            # The comments above belong to the definition that the line begins, if any.
            if name := defined(text, self._suffix):
                outer = tuple(scope.name for scope in self._scopes[1:])
                self._scopes.append(_Scope(_indent(text), number, name, outer, self._comments))
            else:
                self._scopes[-1].doc += self._comments
            self._comments = []
        return _Placed(number, text, origin, self._scopes[-1], is_comment)


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


def all_units(gathered: Findings) -> list[Quotable]:
    """Group the known lines of all files into units."""
    return [unit for path in gathered.lines for unit in _units(path, gathered)]


def _units(path: str, gathered: Findings) -> Iterable[Quotable]:
    known = gathered.lines[path]
    if not is_code(path):
        return units(path, known)
    origins = gathered.origins.get(path, {})
    return _blocks(path, tuple((number, known[number][0], origins.get(number, 0)) for number in sorted(known)))


@lru_cache(maxsize=128)
def _blocks(path: str, lines: tuple[SeenLine, ...]) -> tuple[CodeBlock, ...]:
    """Return the blocks of a code file; cached, so that each file is analyzed once."""
    return tuple(code_blocks(path, lines))


_KEYWORD_ONLY = frozenset({".py", ".pyi", ".rb", ".ex", ".exs", ".lua", ".jl", ".sh", ".bash", ".zsh"})
"""Languages in which a keyword begins each definition."""
_BRACES = frozenset(
    """
    .js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .java .kt .kts .scala .go .rs .c .h .cc .hh .cpp .hpp .cxx .cs
    .php .swift .m .mm .dart .groovy .zig .pl .pm .r .nim
    """.split()  # noqa: SIM905 - shorter than 35 quoted suffixes
)
"""Languages in which only a brace may mark a definition."""
SUFFIXES = _KEYWORD_ONLY | _BRACES
"""Suffixes of code files, with the dot."""
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|override|open|sealed|virtual"
    r"|readonly|declare|inline|pub(?:\(\w+\))?|unsafe|extern|const|suspend|data|local)\s+)*"
)
_WORDS = r"def|defp|defmodule|class|interface|struct|trait|enum|impl|object|protocol|module|function\*?|fn|func|fun|sub"
_BY_KEYWORD = re.compile(rf"\s*{_MODIFIERS}(?:{_WORDS})\s+(?:<[^>]*>\s*|\([^)]*\)\s*)?(?:self\.)?([\w$]+)")
_BOUND = re.compile(
    r"\s*(?:(?:export\s+)?(?:default\s+)?(?:const|let|var|val)\s+|[\w$]+\.(?:[\w$]+\.)*)([\w$]+)\b[^;]*?="
    r"\s*\(?(?:async\s*)?"
    r"(?:function\b|(?:<[^>]*>\s*)?\((?:[^)]*$|.*=>)|[\w$]+\s*=>)"
)
_METHOD = re.compile(
    rf"\s*{_MODIFIERS}(?:get\s+|set\s+)?[#*]?"
    r"(?:[\w:<>,\[\]*&?.@]+\s+[*&]*){0,4}([\w$~]+)\s*(?:<[^<>]*>)?\([^;]*\{\s*$"
)
_NAMED_ARGUMENT = re.compile(r".*[(,]\s*(?:async\s+)?function\*?\s+([\w$]+)\s*\([^()]*\)\s*\{\s*$")
"""A named function passed to another function."""
_CONTROL = frozenset(
    """
    if for while switch catch return function with do else elif match when using lock synchronized foreach unless until
    new throw await yield case try finally typeof super
    """.split()  # noqa: SIM905 - as above
)
_LONGEST_LINE = 300
_SHORTEST_STEM = 3


@lru_cache(maxsize=4096)
def is_code(path: str) -> bool:
    """Return whether a path is that of a source file, by its suffix."""
    return PurePosixPath(path).suffix.casefold() in SUFFIXES


@lru_cache(maxsize=16_384)
def defined(line: str, suffix: str) -> str | None:
    """Return the name that a line defines; None if it defines none."""
    if len(line) > _LONGEST_LINE:
        return None
    if found := _BY_KEYWORD.match(line):
        return found[1]
    if suffix not in _BRACES:
        return None
    if found := _BOUND.match(line) or _NAMED_ARGUMENT.match(line):
        return found[1]
    words = line.split(maxsplit=1)
    if not words or not line.rstrip().endswith("{") or "=>" in line or re.match(r"\W*(\w+)", line) is None:
        return None
    found = _METHOD.match(line)
    first = re.split(r"\W", words[0].lstrip("}"))[0]
    return found[1] if found and first not in _CONTROL and found[1] not in _CONTROL else None


def pattern(stems: list[str]) -> str:
    """Return a regular expression for lines that define a name in which a word has one of these beginnings.

    Use it without regard to case.
    """
    either = "|".join(re.escape(stem) for stem in stems if len(stem) >= _SHORTEST_STEM)
    return (
        rf"^\s*(?:[a-z]+ ){{0,3}}[a-z0-9_#$]*(?:{either})[a-z0-9_$]*\(.*\{{$"
        rf"|\.[a-z0-9_$]*(?:{either})[a-z0-9_$]*\s*=\s*(?:async )?(?:function\b|\(.*=>)"
        rf"|\b(?:const|let|var|val)\s+[a-z0-9_$]*(?:{either}).{{0,200}}=.{{0,200}}(?:=>|\bfunction\b|\($|\{{$)"
        rf"|\b(?:{_WORDS})\s+(?:\([^)]{{0,80}}\)\s*)?[a-z0-9_$.]*(?:{either})"
    )


_ENDS = (re.compile(r"(?<=[.!?;])\s+"), re.compile(r"\n\s*"), re.compile(r"\s+"))
"""Where a piece may start or end, preferred boundaries first."""
_LINE_ENDS = (re.compile(r"\n"), re.compile(r"\s+"))
"""The same in code, where a piece begins with its indentation."""


@dataclass(frozen=True)
class Quote:
    """Verbatim text with its source."""

    path: str
    line: int
    text: str
    is_code: bool = False
    """True for lines of code, which are shown as such."""

    @property
    def source(self) -> str:
        """The source as `path:line`."""
        return f"{self.path}:{self.line}"

    def __str__(self) -> str:
        if self.is_code:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
            source = self.source if "`" in self.path else f"`{self.source}`"
            return f"{source}\n{fence}{PurePosixPath(self.path).suffix[1:]}\n{self.text}\n{fence}"
        return f'> "{self.text}" — {self.source}'


def cut(unit: Quotable, longest: int, rate: Callable[[str], float]) -> Quote:
    """Return a quote of a unit: all of it, else the best sentences that fit, else the best lines or words.

    longest: maximum length [characters].
    rate: scores a piece of text.
    """
    is_code = isinstance(unit, CodeBlock)
    begin = 0 if is_code else len(unit.text) - len(unit.text.lstrip())
    spans = _spans(unit.text, longest, _LINE_ENDS if is_code else _ENDS, begin)
    start, end = max(spans, key=lambda span: (rate(unit.text[slice(*span)]), -span[0]))
    return Quote(unit.path, unit.line + unit.text.count("\n", 0, start), unit.text[start:end], is_code)


def _spans(text: str, longest: int, boundaries: Sequence[re.Pattern[str]], begin: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each piece that could be quoted.

    boundaries: where a piece may start or end, preferred ones first.
    begin: where the first piece may start.
    """
    end_of_text = len(text.rstrip())
    if end_of_text - begin <= longest:
        yield begin, end_of_text
        return
    stops = [begin, end_of_text]
    for ends in boundaries:
        stops = sorted({*stops, *(found.end() for found in ends.finditer(text, begin, end_of_text))})
        if all(after - before <= longest for before, after in pairwise(stops)):
            break
    for position, start in enumerate(stops[:-1]):
        fitting = [stop for stop in stops[position + 1 :] if stop - start <= longest]
        end = fitting[-1] if fitting else start + longest
        yield start, start + len(text[start:end].rstrip())


def grown(
    unit: Quotable, neighbours: Sequence[Quotable], longest: int, worth: Callable[[Quotable], bool]
) -> list[Quotable]:
    """Return a unit extended by the directly following and preceding units that are worth it and fit.

    neighbours: all units of the file in order.
    longest: maximum total length [characters].
    worth: returns whether a unit is good enough to be added.
    """
    first = last = neighbours.index(unit)
    size = len(unit.text)
    for step in (1, -1):
        while True:
            at = last + 1 if step > 0 else first - 1
            if not 0 <= at < len(neighbours):
                break
            other, edge = neighbours[at], neighbours[last if step > 0 else first]
            upper, lower = (edge, other) if step > 0 else (other, edge)
            led = upper.is_label and lower.headings[-1:] == (upper.text,)
            joined = lower.line == upper.end + 1 and (led or (other.headings == edge.headings and not other.is_heading))
            if not joined or size + 1 + len(other.text) > longest or not (led or worth(other)):
                break
            size += 1 + len(other.text)
            first, last = (first, at) if step > 0 else (at, last)
    return list(neighbours[first : last + 1])
