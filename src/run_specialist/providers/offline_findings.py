"""The terms of a question, and everything that the offline researcher has seen so far."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from run_specialist.prompts import ASKS
from run_specialist.record.messages import Block, CompletedCall, Message, ToolCall, text_of
from run_specialist.tools.search import content_terms, parts, spellings, stem


@dataclass(frozen=True)
class QuestionKind:
    """Patterns for one kind of question and its answers."""

    asked: re.Pattern[str]
    """Matches questions of this kind."""
    shown: re.Pattern[str]
    """Matches answers."""
    above: re.Pattern[str] | None = None
    """Matches the heading or label of answers."""
    without: float = 0.95
    """Factor on the score of a line without a match."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_MEASURE = (
    r"(?:line|version|number|size|limit|threshold|rate|ratio|percentage|fraction|proportion|share|count|value|port"
    r"|timeout|budget|score|cost|price|issue)\b"
)
_AMOUNT = QuestionKind(
    asked=_any(
        r"\bhow (?:many|much|large|big|long|often|fast|slow|high|low|old|far|small|deep|wide|accurate|tall)\b",
        r"\b(?:what|which)\b(?:'s| is| was| are| were)?(?: the)?(?: \w+){0,3} " + _MEASURE,
        r"\btolerance\b",
        r"\bnumber of\b",
        r"\bpercent",
    ),
    shown=re.compile(r"(?<![\w#.-])(?!\d{4}-\d\d)\d"),
    without=0.8,
)
_REASON = QuestionKind(
    asked=_any(
        r"\bwhy\b", r"\breasons?\b", r"\bcauses?\b", r"\bhow come\b", r"\bexplain", r"\bpoint of\b", r"\bdownside"
    ),
    shown=_any(
        *(
            r"\bbecause\b",
            r"\bdue to\b",
            r"\bsince\b",
            r"\bso that\b",
            r"\bcaus",
            r"\breason",
            r"\brationale",
            r"\bthus\b",
        ),
        *(r"\btherefore", r"\bto (?:avoid|prevent|ensure|keep)\b", r"\bcan(?:not|'t)\b", r"\bin order to\b", r"\bso\b"),
        *(r"\bwould\b", r"\binstead of\b", r"\bresult", r"\b(?:does|do|is)(?:n't| not)\b", "→"),
    ),
    above=_any(r"\bwhy\b", r"\bcauses?\b", r"\breason", r"\brationale", r"\bjustif", r"\bbecause\b", r"\bmotivation"),
)
QUESTION_KINDS = (_AMOUNT, _REASON)


_PART_BREAK = re.compile(
    r"(?i)[?!.;]\s+|,?\s+(?:and|but|or)\s+(?=(?:also\s+)?(?:how|why|what|which|when|where|who|whose|whom|if so|is|are|"
    r"was|were|does|do|did|on which|in which|by how|from which|since when)\b)"
)
_NAME_SHAPE = re.compile(r"[A-Z].*[A-Z]|\d|[_/#@+]|[a-z][A-Z]|\w\.\w|::")
_CALENDAR = re.compile(
    r"(?i)(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|may|june|july|august|september"
    r"|october|november|december"
)
_ASKED_ABOUT_AMOUNT = re.compile(
    r"(?i)\bhow (many|much|large|big|long|often|fast|slow|high|low|old|far|small|deep|wide|tall)\b(?! \w+er\b)"
)
_BEHAVIOUR = re.compile(r"(?i)\b(?:how|where|when|what happens|what does|which|does|do|is|are|can)\b")
_NOT_BEHAVIOUR = re.compile(
    r"(?i)\b(?:why|who|whom|whose|decisions?|rationale|reasons?|agreed|policy)\b|\b(?:did|do|have|had|are|were) we\b"
    r"|\bwe (?:use|chose|decided?|settled?|picked)\b"
)
_QUOTED = re.compile(r"[\"'`“‘«]([^\"'`”’»]{2,60})[\"'`”’»]")


_ASKING = frozenset(
    """
    actually although anyway bad best chose choose chosen compare compared conclude concluded decide decided decision
    describe different explain good hardly happen happened happens hold holds instead kind kinds list main meant moment
    overview point reason reasons really right settle settled show sort sorts stand stands stood summarise summarize
    summary think told whole
    """.split()  # noqa: SIM905 - as in STOP_WORDS
)
"""Words that describe the desired answer, not its subject."""
_MOST_TERMS = 24
_LONG_ENOUGH = 4


@dataclass(frozen=True)
class Term:
    """One word or identifier of the question."""

    text: str
    """The term as spelled in the question."""
    forms: tuple[frozenset[str], ...]
    """Word roots of each spelling; a text contains the term if it contains all roots of one spelling."""
    synonyms: tuple[str, ...]
    """Words with a similar meaning."""
    name: bool
    """True if the term looks like a name or an identifier."""

    @cached_property
    def kin(self) -> frozenset[str]:
        """Roots of the synonyms."""
        return frozenset(map(root, self.synonyms))

    @cached_property
    def kin_in_code(self) -> frozenset[str]:
        """Roots of the words that may name in code what the term names."""
        return roots_in_code(self.text)

    @cached_property
    def beginning(self) -> str | None:
        """Prefix of longer words that contain the term; None for short or compound terms."""
        (first, *more), *_ = map(sorted, self.forms)
        return first if not more and len(first) >= _LONG_ENOUGH else None


def is_in(term: Term, word_roots: frozenset[str]) -> bool:
    """Return whether a set of word roots contains one of a term's spellings."""
    for form in term.forms:  # noqa: SIM110 - the innermost loop of a run; any() takes twice as long
        if form <= word_roots:
            return True
    return False


@dataclass(frozen=True)
class Question:
    """A question and its analysis."""

    text: str

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Terms for the subject of the question, in order."""
        text = plain(_ASKED_ABOUT_AMOUNT.sub(" ", self.text))
        words = content_terms(text[:_LONGEST])
        subject = [word for word in words if word.casefold() not in _ASKING]
        found = [_term(word, self.text) for word in subject or words]
        by_roots = {term.forms[0]: term for term in reversed(found)}
        return tuple(sorted(by_roots.values(), key=found.index))[:_MOST_TERMS]

    @cached_property
    def acronyms(self) -> tuple[tuple[str, frozenset[Term]], ...]:
        """Possible acronyms of adjacent words, with the terms that they abbreviate."""
        runs = (run for size in (2, 3) for run in zip(*(self.terms[start:] for start in range(size)), strict=False))
        return tuple(
            ("".join(term.text[0] for term in run).upper(), frozenset(run))
            for run in runs
            if all(term.text.isalpha() for term in run) and " ".join(term.text for term in run) in self.text
        )

    @cached_property
    def parts(self) -> tuple["Question", ...]:
        """The separate questions in the text; the question itself if there is only one."""
        pieces = [piece.strip(" ,.;:?!") for piece in _PART_BREAK.split(self.text[:_LONGEST])]
        pieces = [piece for piece in pieces if len(piece.split()) > 1]
        return tuple(map(Question, pieces)) if len(pieces) > 1 else (self,)

    @cached_property
    def roots(self) -> frozenset[str]:
        """Roots of all words."""
        return roots(self.text)

    @cached_property
    def kinds(self) -> tuple[QuestionKind, ...]:
        """The kinds of questions that match this one."""
        return tuple(kind for kind in QUESTION_KINDS if kind.asked.search(self.text))

    @cached_property
    def is_about_behaviour(self) -> bool:
        """Whether code, if there is any, answers the question best: how something is done, or where."""
        return bool(_BEHAVIOUR.search(self.text)) and not _NOT_BEHAVIOUR.search(self.text)

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """Quoted phrases in the question."""
        return tuple(dict.fromkeys(_QUOTED.findall(self.text)))


def _term(word: str, text: str) -> Term:
    pieces = [piece for piece in parts(word) if len(piece) > 1] or parts(word)
    # The first word of a sentence is always capitalized.
    capital = word[:1].isupper() and re.search(rf"(?<![.?!:]\s)(?<!^)(?<!\n)\b{re.escape(word)}", text) is not None
    return Term(
        text=word,
        forms=tuple(frozenset(map(root, form)) for form in (pieces, *map(parts, spellings(word)))),
        synonyms=tuple(synonyms(pieces[0])) if len(pieces) == 1 else (),
        name=bool((capital and not _CALENDAR.fullmatch(word)) or _NAME_SHAPE.search(word)),
    )


_FOUND = re.compile(r"(.+?):(\d+): (.*)")
_READ = re.compile(r" *(\d+)\t(.*)")
_CLIPPED = re.compile(r"^… | …(?: \[clipped: .*\])?$")
_COUNTS = re.compile(r"\[(?:passages|files) per word: (.*)\]")
_ABSENT = re.compile(r"\[in no file: (.*)\]")
_LONGEST = 4000
"""Maximum length of a stored line [characters]."""


@dataclass
class Findings:
    """The lines, word counts and files seen so far."""

    question: str
    calls: Sequence[CompletedCall]
    must_answer: bool
    """True if the newest message ends with the order to answer: further calls would not be executed."""
    recent: int
    """Number of calls since the last user message, so that a resumed run starts at 0."""
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """By path and line number: the line, or the parts seen of a long line; verbatim."""
    read: dict[str, set[int]] = field(default_factory=dict)
    """By path: numbers of the lines seen with their context."""
    origins: dict[str, dict[int, int]] = field(default_factory=dict)
    """By path and line number: a number shared by the lines that one result showed in a row.

    A quote is looked up in one result, so it must not combine lines of two.
    """
    counts: dict[str, int] = field(default_factory=dict)
    """Number of passages that contain a word, by lowercase word; 0 if no file contains it."""
    fruitless: set[str] = field(default_factory=set)
    """Patterns of `grep` calls without a match."""
    files: list[str] = field(default_factory=list)
    """Paths from the results of `glob` and `ls`."""
    _rows: int = 0
    _last: tuple[str, int] = ("", 0)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Findings":
        """Parse a transcript with any content; never raises."""
        texts = [text_of(message.blocks) if message.role == "user" else "" for message in messages]
        from_user = [at for at, text in enumerate(texts) if text] or [0]
        calls = tuple(_calls(messages))
        recent = len(tuple(_calls(messages[from_user[-1] :])))
        must_answer = bool(messages and messages[-1].landing_instruction)
        gathered = cls(_newest_question([text for text in texts if text]), calls, must_answer, recent)
        for completed in calls:
            if not completed.is_error:
                gathered._learn(completed)
        return gathered

    @property
    def called(self) -> frozenset[str]:
        """The keys of all calls so far."""
        return frozenset(completed.call.key for completed in self.calls)

    def absent(self, term: Term) -> bool:
        """Return whether a search has shown that a term occurs in no file."""
        if self.counts.get(term.text.casefold()) != 0 and literal(term.text) not in self.fruitless:
            return False
        seen = (text for lines in self.lines.values() for texts in lines.values() for text in texts)
        return not any(form <= roots(text) for text in seen for form in term.forms)

    def _learn(self, completed: CompletedCall) -> None:
        self._last = "", 0
        arguments = completed.call.arguments or {}
        path = str(arguments.get("path", ""))
        if completed.call.name == "grep" and not any(map(_FOUND.fullmatch, completed.result.split("\n"))):
            self.fruitless.add(str(arguments.get("pattern", "")))
        for line in completed.result.split("\n"):
            match completed.call.name:
                case "search" | "grep":
                    self._learn_found(line)
                case "read" if found := _READ.fullmatch(line):
                    self._keep(path, int(found[1]), found[2])
                    self._place(path, int(found[1]), is_read=True)
                    self.read.setdefault(path, set()).add(int(found[1]))
                case "glob" if line and not line.startswith("["):
                    self.files.append(line)
                case "ls" if line and not line.startswith("["):
                    name = line.split("  ")[0]
                    self.files.append(name if path in ("", ".") else f"{path.rstrip('/')}/{name}")
                case _:
                    pass

    def _learn_found(self, line: str) -> None:
        if found := _FOUND.fullmatch(line):
            self._keep(found[1], int(found[2]), found[3])
            self._place(found[1], int(found[2]), is_read=False)
        elif counted := _COUNTS.fullmatch(line):
            for item in counted[1].split(", "):
                word, _, count = item.rpartition(" ")
                if count.isdigit():
                    self.counts[word.casefold()] = int(count)
        elif absent := _ABSENT.fullmatch(line):
            self.counts.update((word.casefold(), 0) for word in absent[1].split(", ") if word != "…")

    def _place(self, path: str, number: int, *, is_read: bool) -> None:
        if self._last != (path, number - 1):
            self._rows += 1
        self._last = path, number
        known = self.origins.setdefault(path, {})
        # What was read is longer than what a search shows.
        if is_read or number not in known:
            known[number] = self._rows

    def _keep(self, path: str, number: int, text: str) -> None:
        text = _CLIPPED.sub("", text)[:_LONGEST]
        known = self.lines.setdefault(path, {}).setdefault(number, [])
        if not any(text in part for part in known):
            known[:] = [*(part for part in known if part not in text), text]


def _newest_question(texts: Sequence[str]) -> str:
    """Return the newest question: the one added on resume, otherwise the first."""
    added = [text.partition(ASKS)[2] for text in texts if ASKS in text]
    return [*texts[:1], *added][-1] if texts else ""


def _calls(messages: Sequence[Message]) -> Iterator[CompletedCall]:
    calls: dict[str, ToolCall] = {}
    for message in messages:
        for block in message.blocks:
            if block.get("type") == "tool_use":
                arguments = block.get("input")
                name, id_ = str(block.get("name", "")), str(block.get("id", ""))
                calls[id_] = ToolCall(id_, name, arguments if isinstance(arguments, Mapping) else None)
            elif block.get("type") == "tool_result":
                call = calls.get(str(block.get("tool_use_id", "")))
                if call is not None:
                    yield CompletedCall(call, _result_text(block), bool(block.get("is_error")))


def _result_text(block: Block) -> str:
    text = text_of(block.get("content"))
    # A result that also reports the limits is a JSON object with the output in one field.
    if text.startswith("{"):
        try:
            fields = json.loads(text)
        except ValueError:
            return text
        if isinstance(fields, dict) and isinstance(fields.get("output"), str):
            return str(fields["output"])
    return text


_PHRASES = tuple(
    (re.compile(rf"(?i)\b(?:{phrase})\b"), verb)
    for phrase, verb in [
        ("le(?:ft|ave|aving) out", "excluded"),
        ("t(?:aken?|ook) out|(?:get|got|getting) rid of|thrown? (?:out|away)", "removed"),
        ("(?:turn|switch)(?:ed)? off", "disabled"),
        ("(?:turn|switch)(?:ed)? on", "enabled"),
        ("g[ai]ven? up(?: on)?", "abandoned"),
        ("look(?:ed)? into", "investigated"),
        ("set up", "setup"),
        ("put off", "postponed"),
        ("made up of", "consisting"),
        ("go(?:es|ne)? wrong|went wrong", "failed"),
    ]
)
_NUMBERS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6"}
_NUMBERS |= {"seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"}
_SUFFIXES = (
    *("ization", "isation", "ication", "ability", "ation", "ition", "ement", "ments", "ment", "ness", "able", "ible"),
    *("tion", "sion", "ence", "ance", "ious", "ive", "ity", "ion", "ize", "ise", "ier", "est", "ors", "ers", "or"),
    *("er", "al", "ic", "ed", "ly", "at", "if"),
)
_SHORTEST = 4
_SYNONYMS = """
speed performance slow slowdown slower sluggish latency throughput fast faster speedup quick
big large size huge long length max maximum peak
remove revert drop delete undo rollback uninstall discard eliminate
decide choose settle pick select adopt agree decision choice
bug defect error issue problem failure fault broken crash wrong mistake
fix repair resolve correct patch solve
cause reason why because due root
limit maximum max cap threshold bound ceiling
change modify alter edit adapt adjust
make create build write generate produce
begin start first initial original
stop end halt terminate kill abort
use apply employ utilize
workaround bypass circumvent
upgrade update bump
replace swap substitute supersede
missing absent lack
check verify validate test
save store persist serialize
plan roadmap schedule
recommend suggest advise propose
difference differ versus compare comparison
merge combine join
person people user owner author team
name call refer alias term title
fail failure failed break
skip ignore exclude omit
exceed longer above over beyond
fraction share percent percentage proportion ratio
automatic auto automatically
costly expensive cost slow
raise increase bump grow
postpone defer delay
"""


@lru_cache(maxsize=65_536)
def root(word: str) -> str:
    """Return the root of a word, shared by its inflections and derivations such as `predicting` and `prediction`."""
    reduced = _NUMBERS.get(word.casefold()) or stem(word)
    for suffix in _SUFFIXES:
        if reduced.endswith(suffix) and len(reduced) - len(suffix) >= _SHORTEST:
            return reduced.removesuffix(suffix)
    return reduced


@lru_cache(maxsize=1)
def _groups() -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for line in _SYNONYMS.split("\n"):
        words = tuple(line.split())
        for word in words:
            groups[root(word)] = groups.get(root(word), ()) + words
    return groups


def synonyms(word: str) -> list[str]:
    """Return words with a similar meaning, without the word itself."""
    own = root(word)
    return [other for other in dict.fromkeys(_groups().get(own, ())) if root(other) != own]


def plain(text: str) -> str:
    """Replace phrasal verbs by single verbs, which a search can find."""
    for phrase, verb in _PHRASES:
        text = phrase.sub(verb, text)
    return text


@lru_cache(maxsize=8192)
def roots(text: str) -> frozenset[str]:
    """Return the roots of all words in a text, with all spellings of identifiers."""
    found: set[str] = set()
    for token in re.findall(r"[^\s()\[\]{}\"`,;]+", text):
        pieces = parts(token)
        found.update(map(root, pieces))
        if len(pieces) > 1 or not token.islower():
            found.update(root(part) for spelling in spellings(token) for part in parts(spelling))
    return frozenset(found)


def literal(text: str) -> str:
    """Return a regular expression that matches a text literally."""
    return re.escape(text[:80]).replace(r"\ ", " ")


_GROUPS = """
argument arg parameter param option
asynchronous async coroutine await
authenticate authentication auth login
authorize authorization auth permission
buffer buf
calculate compute calc
cancel abort
check verify validate ensure assert is
clean cleanup clear purge
close shutdown dispose destroy teardown
combine join merge
command cmd
compare equal eq diff
configure configuration config conf setting option
connect connection conn
context ctx
convert transform cast coerce
copy clone duplicate
create make build new
current cur
database db
decode parse deserialize unmarshal load
decorate decorator wrap wrapper
delay wait sleep pause
delete remove del drop
dictionary dict map
directory dir folder
encode serialize marshal dump render
environment env
error err exception exc failure
event emit listener handler callback hook
execute run exec invoke call perform
fetch get load retrieve
file path
find lookup search match
function func fn callable
generate gen
handle handler process dispatch
identifier id
ignore skip exclude
information info
initialize init setup start
iterate iterator iter next
language lang
length len size
limit max maximum bound
log logger logging
message msg
minimum min
number num count
object obj
password passwd pwd
position pos index offset
previous prev last
print write output
read load
receive recv
reference ref
repeat retry attempt
reply response resp
request req
response resp res
save store write persist
send write emit dispatch
source src
specification spec
statistics stats
string str text
successful success succeed ok
temporary temp tmp
update refresh set
value val
variable var
version ver
"""
"""Abbreviations and common names, one group per line."""


@lru_cache(maxsize=1)
def _by_root() -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for words in map(str.split, _GROUPS.split("\n")):
        for word in words:
            groups[root(word)] = groups.get(root(word), ()) + tuple(words)
    return groups


@lru_cache(maxsize=4096)
def names_in_code(word: str) -> tuple[str, ...]:
    """Return other words that code may use for a word of a question."""
    own = root(word)
    return tuple(other for other in dict.fromkeys((*_by_root().get(own, ()), *synonyms(word))) if root(other) != own)


@lru_cache(maxsize=4096)
def roots_in_code(word: str) -> frozenset[str]:
    """Return the roots of `names_in_code`."""
    return frozenset(map(root, names_in_code(word)))
