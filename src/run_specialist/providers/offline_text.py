"""The texts of an offline run: the terms of its question, the lines that its calls showed, and units to quote."""

import json
import re
from calendar import day_name, month_name
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple, TypeVar

from run_specialist.prompts import ASKS
from run_specialist.record.messages import Block, CompletedCall, Message, ToolCall, text_of
from run_specialist.tools.files import shown_lines, unclipped, word_counts
from run_specialist.tools.search import content_terms, parts, spellings, stem

_T = TypeVar("_T")

# Words that describe the desired answer, not its subject.
_ASKING = frozenset(
    """
    actually although anyway bad best chose choose chosen compare compared conclude concluded decide decided decision
    describe different explain fast good happen happened happens hardly hold holds instead kind kinds large list main
    meant moment overview point people reason reasons really right settle settled show slow sort sorts stand stands
    stood summarise summarize summary think told whole
    """.split()  # noqa: SIM905 - as in STOP_WORDS
)
_CALENDAR = {*month_name, *day_name}
_NAME_SHAPE = re.compile(r"[A-Z].*[A-Z]|\d|[_/#@+]|[a-z][A-Z]|\w\.\w|::")
_BEHAVIOUR = re.compile(r"(?i)\b(?:how|where|when|what happens|what does|which|does|do|is|are|can)\b")
_NOT_BEHAVIOUR = re.compile(
    r"(?i)\b(?:why|who|whom|whose|decisions?|rationale|reasons?|agreed|policy)\b|\b(?:did|do|have|had|are|were) we\b"
    r"|\bwe (?:use|chose|decided?|settled?|picked)\b"
)
# Endings of derived words, after at least four letters.
_SUFFIX = re.compile(
    r"(?<=.{4})(?:ization|isation|ication|ability|ation|ition|ement|ments|ment|ness|able|ible|tion|sion|ence|ance|ious"
    r"|ive|ity|ion|ize|ise|ier|est|ors|ers|or|er|al|ic|ed|ly|at|if)$"
)
_MOST_TERMS = 24
# Separators in a word that is taken for the stem of a file; number of files that a name may mean.
_IN_STEM, _FEW = 2, 3
# Maximum length of a stored line, and of the part of a question that is analyzed [characters].
_LONGEST = 4000
# Groups of words for the same thing, most of them in code.
_SYNONYMS = """
argument parameter param arg, asynchronous async await, authentication auth login, calculate compute calc, cancel
abort stop, check verify validate, close shutdown dispose, command cmd, compare equal eq diff, configuration config
conf setting option, connection conn, context ctx, create make build new, directory dir folder, error err exc
exception failure fail, environment env, execute run exec invoke call, fetch get load retrieve, function fn func,
identifier id name, initialize init setup start, length len size, limit max maximum, message msg, number num count,
position pos index offset, remove delete del drop revert, request req, response reply resp res, retry repeat attempt,
send write emit, successful success succeed ok, temporary temp tmp, value val, version ver, wait delay sleep
"""


@lru_cache(maxsize=65_536)
def root(word: str) -> str:
    """Return the root of a word, shared by its inflections and derivations such as `predicting` and `prediction`."""
    return _SUFFIX.sub("", stem(word))


@lru_cache(maxsize=8192)
def roots(text: str) -> frozenset[str]:
    """Return the roots of all words in a text, with all spellings of identifiers."""
    found: set[str] = set()
    for token in re.findall(r"[^\s()\[\]{}\"`,;/]+", text):
        pieces = parts(token)
        found.update(map(root, pieces))
        if len(pieces) > 1 or not token.islower():
            found.update(root(part) for spelling in spellings(token) for part in parts(spelling))
    return frozenset(found)


@lru_cache(maxsize=8192)
def _spaced(found: frozenset[str]) -> str:
    """Return words in one text, each after a blank: a search in it is several times as fast as one through a set."""
    return " ".join(["", *found])


@lru_cache(maxsize=4096)
def synonyms(word: str) -> tuple[str, ...]:
    """Return words that prose or code may use instead of a word."""
    own = root(word)
    groups = (group.split() for group in _SYNONYMS.split(","))
    found = [other for group in groups if own in map(root, group) for other in group]
    return tuple(other for other in dict.fromkeys(found) if root(other) != own)


@dataclass(frozen=True)
class Term:
    """One word or identifier of a question."""

    text: str
    forms: tuple[frozenset[str], ...]
    """Word roots of each spelling; a text contains the term if it contains all roots of one spelling."""
    kin: frozenset[str]
    """Roots of its synonyms."""
    is_name: bool

    def is_in(self, found: frozenset[str]) -> bool:
        """Return whether a set of word roots contains one of the term's spellings."""
        for form in self.forms:  # noqa: SIM110 - the innermost loop of a run; any() takes twice as long
            if form <= found:
                return True
        return False


def terms_of(question: str) -> tuple[Term, ...]:
    """Return the terms for the subject of a question, in order."""
    words = content_terms(question[:_LONGEST])
    subject = [word for word in words if word.casefold() not in _ASKING]
    found: dict[frozenset[str], Term] = {}
    for word in subject or words:
        pieces = [piece for piece in parts(word) if len(piece) > 1] or parts(word)
        forms = tuple(frozenset(map(root, form)) for form in (pieces, *map(parts, spellings(word))))
        kin = frozenset(map(root, synonyms(pieces[0]))) if len(pieces) == 1 else frozenset[str]()
        # The first word of a sentence is always capitalized.
        inside = rf"(?<![.?!:]\s)(?<!^)(?<!\n)\b{re.escape(word)}"
        is_capital = word[:1].isupper() and word not in _CALENDAR and re.search(inside, question)
        is_name = bool(is_capital or _NAME_SHAPE.search(word))
        found.setdefault(forms[0], Term(word, forms, kin, is_name))
    return tuple(found.values())[:_MOST_TERMS]


def file_pattern(word: str) -> str:
    """Return the pattern of the files that a word of a question names, by path, name or stem; empty if none."""
    path = re.sub(r":\d.*", "", word)
    if re.search(r"\.[A-Za-z]\w*$", path):
        return path
    return f"{path}.*" if "/" in path or len(re.findall("[-_]", path)) >= _IN_STEM else ""


def is_about_behaviour(question: str) -> bool:
    """Return whether code, if there is any, answers a question best: how something is done, or where."""
    return bool(_BEHAVIOUR.search(question)) and not _NOT_BEHAVIOUR.search(question)


@dataclass(slots=True)
class SeenLine:
    """A line of a file, as far as it was shown."""

    pieces: list[str]
    """The line, or the parts seen of a long one; verbatim."""
    origin: int
    """A number shared by the lines that one result showed in a row: a quote must not combine lines of two."""

    @property
    def text(self) -> str:
        """The line, or its first part."""
        return self.pieces[0]


class Findings:
    """Everything that a transcript of any content shows."""

    def __init__(self, messages: Sequence[Message]) -> None:
        texts = [text_of(message.blocks) if message.role == "user" else "" for message in messages]
        # The newest question is the one added on resume, otherwise the first.
        added = [text.partition(ASKS)[2] for text in texts if ASKS in text]
        self.question = [*[text for text in texts if text][:1], *added][-1] if any(texts) else ""
        self.calls = tuple(_calls(messages))
        self.must_answer = bool(messages and messages[-1].landing_instruction)
        """Whether the newest message ends with the order to answer: further calls would not be executed."""
        begun = max((at for at, text in enumerate(texts) if text), default=0)
        self.recent = len(tuple(_calls(messages[begun:])))
        """Number of calls since the last user message, so that a resumed run starts at 0."""
        self.lines: dict[str, dict[int, SeenLine]] = {}
        """By path and line number."""
        self.counts: dict[str, int] = {}
        """Number of passages that contain a word, by lowercase word; 0 if no file contains it."""
        self.files: list[str] = []
        self._rows, self._last = 0, ("", 0)
        for completed in self.calls:
            if not completed.is_error:
                self._learn(completed)

    def absent(self, term: Term) -> bool:
        """Return whether a search has shown that a term occurs in no file."""
        if self.counts.get(term.text.casefold()) != 0:
            return False
        seen = (piece for lines in self.lines.values() for line in lines.values() for piece in line.pieces)
        return not any(term.is_in(roots(piece)) for piece in seen)

    def matching(self, pattern: str) -> list[str]:
        """Return the files that a glob found for a pattern: the one with this path, or few with this name."""
        found = [path for path in dict.fromkeys(self.files) if PurePosixPath(path).match(pattern)]
        return [pattern] if pattern in found else found if len(found) <= _FEW else []

    def _learn(self, completed: CompletedCall) -> None:
        self._last = "", 0
        name, arguments = completed.call.name, completed.call.arguments or {}
        path = str(arguments.get("path", ""))
        if name in ("search", "grep", "read"):
            for shown in shown_lines(completed.result, path if name == "read" else None):
                self._keep(*shown, is_read=name == "read")
        if name == "search":
            counts, absent = word_counts(completed.result)
            self.counts.update((word.casefold(), count) for word, count in counts.items())
            self.counts.update((word.casefold(), 0) for word in absent.split(", ") if word not in ("", "…"))
        for line in completed.result.split("\n") if name in ("glob", "ls") else ():
            if line and not line.startswith("["):
                entry = line.split("  ")[0]
                self.files.append(entry if name == "glob" or path in ("", ".") else f"{path.rstrip('/')}/{entry}")

    def _keep(self, path: str, number: int, text: str, *, is_read: bool) -> None:
        if self._last != (path, number - 1):
            self._rows += 1
        self._last = path, number
        text = unclipped(text)[:_LONGEST]
        known = self.lines.setdefault(path, {}).setdefault(number, SeenLine([], self._rows))
        # What was read is longer than what a search shows.
        known.origin = self._rows if is_read else known.origin
        if not any(text in piece for piece in known.pieces):
            known.pieces = [*(piece for piece in known.pieces if piece not in text), text]


def _calls(messages: Sequence[Message]) -> Iterator[CompletedCall]:
    calls: dict[str, ToolCall] = {}
    for message in messages:
        for block in message.blocks:
            match block:
                case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": arguments}:
                    calls[call_id] = ToolCall(call_id, name, arguments if isinstance(arguments, Mapping) else None)
                case {"type": "tool_result", "tool_use_id": str(call_id)} if call_id in calls:
                    yield CompletedCall(calls[call_id], _result_text(block), bool(block.get("is_error")))


def _result_text(block: Block) -> str:
    text = text_of(block.get("content"))
    # A result that also reports the limits is a JSON object with the output in one field.
    with suppress(ValueError, LookupError, TypeError):
        output = json.loads(text)["output"] if text.startswith("{") else None
        return output if isinstance(output, str) else text
    return text


# Factor on the weight of a place if only a longer word with this beginning is there, of this length, or a synonym.
_BEGINS, _SHORTEST, _KIN = 0.65, 4, 0.5


@dataclass(frozen=True, eq=False)
class Unit:
    """Consecutive lines of a file that belong together: a list item, a paragraph, statements of a definition."""

    path: str
    line: int
    text: str
    """Verbatim lines from that one on, joined by newlines."""
    headings: tuple[str, ...]
    """Headings above the unit, or the names of the definitions around it, as far as they were seen."""
    around: str = ""
    """Lines just before and after the unit; for code, comments and docstring of its definition."""
    form: float = 1.0
    """Factor for how likely a unit of this form answers: highest for prose, and for statements in a function."""
    is_code: bool = False
    is_comment: bool = False
    start: int = 0
    """Line where the innermost definition around code begins; 0 outside of any."""
    is_unread: bool = False
    """True for a definition of which only the first line is known."""

    @cached_property
    def roots(self) -> frozenset[str]:
        """Roots of the unit's words."""
        return roots(self.text)

    @cached_property
    def above(self) -> frozenset[str]:
        """Roots of the words in the unit's headings and its path."""
        path = PurePosixPath(self.path)
        return roots(" ".join([*self.headings, path.with_suffix("").as_posix() if self.is_code else self.path]))

    @cached_property
    def places(self) -> tuple[tuple[float, frozenset[str]], ...]:
        """The words in and around the unit, each with the confidence that it is about them; the highest first."""
        label = roots(self.headings[-1]) if self.headings else frozenset[str]()
        if self.is_code:
            named = label if self.start else frozenset[str]()
            return (0.9, named), (0.85, self.roots), (0.7, self.above), (0.6, roots(self.around))
        return (1.0, self.roots), (0.7, label), (0.5, self.above), (0.4, self.roots | roots(self.around) | self.above)

    @lru_cache(maxsize=100_000)  # noqa: B019 - units are cached anyway
    def confidence(self, term: Term) -> float:
        """Return the confidence that the unit is about a term, from 0 to 1."""
        known, start = 0.0, root(term.text)
        for weight, found in self.places:
            if weight <= known:
                break
            if term.is_in(found):
                known = weight
            elif len(start) >= _SHORTEST and f" {start}" in _spaced(found):
                known = max(known, weight * _BEGINS)
            elif not term.kin.isdisjoint(found):
                known = max(known, weight * _KIN)
        return known


_HEADING = re.compile(r"#{1,6}\s+\S")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|[^\w\s!-~]{1,2})\s+")
_ALONE = re.compile(r"\s*[|>]|\s*(?:```|~~~)|\s{4,}\S")
_EMPTY = re.compile(r"[\W_]*")
# Lines of a unit; lines that count as near; factor for headings and labels.
_MOST_LINES, _NEAR, _HEADINGS = 8, 3, 0.6


def prose_units(path: str, lines: Mapping[int, SeenLine]) -> Iterator[Unit]:
    """Group the known lines of a file of prose."""
    headings: dict[int, str] = {}
    for numbers in _paragraphs(lines):
        first, last = numbers[0], numbers[-1]
        text = "\n".join(lines[number].text for number in numbers)
        level = text.index(" ") if _HEADING.match(text) else 0
        if level:
            headings = {depth: heading for depth, heading in headings.items() if depth < level}
        near = (*range(first - _NEAR, first), *range(last + 1, last + 1 + _NEAR))
        around = "\n".join(piece for number in near if number in lines for piece in lines[number].pieces)
        # If only parts of a line are known, each part is a unit.
        form = _HEADINGS if level or text.endswith(":") else 1.0
        for piece in lines[first].pieces if first == last else [text]:
            yield Unit(path, first, piece, tuple(headings.values()), around, form)
        if level:
            headings[level] = text


def _paragraphs(lines: Mapping[int, SeenLine]) -> Iterator[list[int]]:
    """Yield the numbers of lines that belong together, without lines that contain no words."""

    def joins(group: Sequence[int], number: int) -> bool:
        before, line = lines[group[-1]], lines[number]
        return (
            number == group[-1] + 1
            and len(group) < _MOST_LINES
            and len(line.pieces) == 1 == len(before.pieces)
            and line.origin == before.origin
            and not (_HEADING.match(line.text) or _ITEM.match(line.text) or _ALONE.match(line.text))
            and not (_HEADING.match(before.text) or _ALONE.match(before.text))
        )

    return _groups((number for number in sorted(lines) if not _EMPTY.fullmatch(lines[number].text)), joins)


def _groups(items: Iterable[_T], joins: Callable[[Sequence[_T], _T], bool]) -> Iterator[list[_T]]:
    """Yield items in groups; `joins` decides whether an item belongs to the group before it."""
    group: list[_T] = []
    for item in items:
        if group and not joins(group, item):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


_ACTION = re.compile(
    r"\b(?:for|while|loop|if|elif|else|switch|case|match|try|except|catch|raise|throw|return|yield|await|with|until)\b"
    r"|[\w\])]\("
)
_TEST = re.compile(
    r"(?i)(?:^|/)(?:tests?|__tests__|spec|specs|testing|fixtures?|examples?|samples?|bench\w*|docs?|docs_src|scripts?|"
    r"vendor\w*|third_party|node_modules|migrations)/|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*[._-](?:test|spec)s?\.\w+)$"
)
# Factors on the score of code: by its number of lines that do something; for comments; for files beside the program.
_ACTIONS, _COMMENTS, _IN_TESTS = (0.5, 0.8, 1.0), 0.5, 0.4
_COMMENT = re.compile(r"\s*(?:#(?:[\s#!:]|$)|//|/\*|\*(?:\s|/|$)|--\s|;;)")
_TRIPLE = re.compile(r"\"\"\"|'''")
_DOCSTRING = re.compile(r"\s*[rbuRBU]?(?:\"\"\"|''')")
_CLOSING = re.compile(r"\s*(?:[)\]}]|end\b)")
# Length at which a block always ends, and at which it ends at the next blank line [characters].
_LONGEST_BLOCK, _ENOUGH = 700, 240


@dataclass(eq=False)
class _Scope:
    """A definition while its lines are collected."""

    indent: int
    line: int
    names: tuple[str, ...]
    doc: list[str] = field(default_factory=list)


class _CodeLine(NamedTuple):
    number: int
    text: str
    origin: int
    scope: _Scope
    is_comment: bool


@lru_cache(maxsize=128)
def code_units(path: str, lines: tuple[tuple[int, str, int], ...]) -> tuple[Unit, ...]:
    """Group the known lines of a source file into statements, comments and first lines of one definition each.

    lines: number, text and origin; the definition around a line follows from the indentation of those before it.
    """
    suffix, known = PurePosixPath(path).suffix.casefold(), {number for number, _, _ in lines}

    def joins(group: Sequence[_CodeLine], line: _CodeLine) -> bool:
        before, size = group[-1], sum(len(each.text) + 1 for each in group)
        most = _LONGEST_BLOCK if before.text.strip() else _ENOUGH
        return line.number == before.number + 1 and line[2:] == before[2:] and size < most

    units = (_code_unit(path, suffix, group, known) for group in _groups(_in_scopes(lines, suffix), joins))
    return tuple(unit for unit in units if unit)


def _in_scopes(lines: Iterable[tuple[int, str, int]], suffix: str) -> Iterator[_CodeLine]:
    """Yield the lines with the innermost definition around each, which collects its docstring and comments."""
    scopes, comments, is_quoted, before = [_Scope(-1, 0, ())], list[str](), False, 0
    for number, text, origin in lines:
        if number > before + 1:
            is_quoted, comments = False, []
        was_quoted, is_quoted, before = is_quoted, is_quoted != bool(len(_TRIPLE.findall(text)) % 2), number
        is_docstring = not was_quoted and bool(_DOCSTRING.match(text))
        is_comment = was_quoted or is_docstring or bool(_COMMENT.match(text))
        indent = len(text.expandtabs(4)) - len(text.expandtabs(4).lstrip())
        if text.strip() and (is_docstring or not is_comment):
            # It ends the definitions above that are indented as much or more.
            while scopes[-1].indent >= indent + bool(_CLOSING.match(text)):
                scopes.pop()
        if is_docstring or (was_quoted and not comments):
            scopes[-1].doc.append(text)
        elif is_comment:
            comments.append(text)
        elif text.strip():
            # The comments above belong to the definition that the line begins, if any.
            if name := defined(text, suffix):
                scopes.append(_Scope(indent, number, (*scopes[-1].names, name), comments))
            else:
                scopes[-1].doc += comments
            comments = []
        yield _CodeLine(number, text, origin, scopes[-1], is_comment)


def _code_unit(path: str, suffix: str, group: Sequence[_CodeLine], known: set[int]) -> Unit | None:
    filled = [at for at, line in enumerate(group) if line.text.strip()]
    kept = group[filled[0] : filled[-1] + 1] if filled else ()
    text = "\n".join(line.text for line in kept)
    if not re.search(r"\w", text):
        return None
    scope, line, form = kept[0].scope, kept[0].number, _COMMENTS
    if not kept[0].is_comment:
        texts = [line.text for line in kept if scope.line and not defined(line.text, suffix)]
        form = _ACTIONS[min(sum(map(bool, map(_ACTION.search, texts))), len(_ACTIONS) - 1)]
    return Unit(
        path,
        line,
        text,
        scope.names,
        "\n".join(scope.doc),
        form=form * (_IN_TESTS if _TEST.search(path) else 1.0),
        is_code=True,
        is_comment=kept[0].is_comment,
        start=scope.line,
        is_unread=len(group) == 1 and line == scope.line and line + 1 not in known,
    )


# Suffixes of languages in which a keyword begins each definition.
_KEYWORD_ONLY = frozenset({".py", ".pyi", ".rb", ".ex", ".exs", ".lua", ".jl", ".sh", ".bash", ".zsh"})
# Suffixes of languages in which only a brace may mark a definition.
_BRACES = frozenset(
    """
    .js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .java .kt .kts .scala .go .rs .c .h .cc .hh .cpp .hpp .cxx .cs
    .php .swift .m .mm .dart .groovy .zig .pl .pm .r .nim
    """.split()  # noqa: SIM905 - shorter than 35 quoted suffixes
)
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
_CONTROL = frozenset(
    """
    if for while switch catch return function with do else elif match when using lock synchronized foreach unless until
    new throw await yield case try finally typeof super
    """.split()  # noqa: SIM905 - as above
)
_LONGEST_LINE, _SHORTEST_STEM = 300, 3


@lru_cache(maxsize=4096)
def is_code(path: str) -> bool:
    """Return whether a path is that of a source file, by its suffix."""
    return PurePosixPath(path).suffix.casefold() in _KEYWORD_ONLY | _BRACES


@lru_cache(maxsize=16_384)
def defined(line: str, suffix: str) -> str | None:
    """Return the name that a line defines; None if it defines none."""
    if len(line) > _LONGEST_LINE:
        return None
    if found := _BY_KEYWORD.match(line):
        return found[1]
    if suffix not in _BRACES:
        return None
    if found := _BOUND.match(line):
        return found[1]
    found = None if "=>" in line or not line.rstrip().endswith("{") else _METHOD.match(line)
    first = re.split(r"\W", line.strip(" \t}"))[0]
    return found[1] if found and not {first, found[1]} & _CONTROL else None


def definitions(words: Sequence[str]) -> str | None:
    """Return a caseless pattern of lines that define a name in which one of these words begins; None without words."""
    stems = set()
    for word in words:
        endings = ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "s", "y", "e")
        ending = next((one for one in endings if word.endswith(one) and len(word) - len(one) >= _SHORTEST_STEM), "")
        stems.add(word.casefold().removesuffix(ending))
    either = "|".join(sorted(one for one in stems if one.isalnum() and len(one) >= _SHORTEST_STEM))
    return either and (
        rf"^\s*(?:[a-z]+ ){{0,3}}[a-z0-9_#$]*(?:{either})[a-z0-9_$]*\(.*\{{$"
        rf"|\.[a-z0-9_$]*(?:{either})[a-z0-9_$]*\s*=\s*(?:async )?(?:function\b|\(.*=>)"
        rf"|\b(?:const|let|var|val)\s+[a-z0-9_$]*(?:{either}).{{0,200}}=.{{0,200}}(?:=>|\bfunction\b|\($|\{{$)"
        rf"|\b(?:{_WORDS})\s+(?:\([^)]{{0,80}}\)\s*)?[a-z0-9_$.]*(?:{either})"
    )
