"""The offline researcher, which is no language model: its next calls, the ranking of what it found, its answer."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from run_specialist.prompts import NOT_DELIVERED
from run_specialist.providers.base import Capabilities, Choice, Delta, Opening, Request, Watch
from run_specialist.providers.offline_findings import Findings, Question, Term, is_in, literal, names_in_code, roots
from run_specialist.providers.offline_units import (
    CodeBlock,
    Quotable,
    Quote,
    all_units,
    cut,
    grown,
    is_code,
    pattern,
    shape,
)
from run_specialist.record.messages import Block, Message, Reply, Stop, ToolCall, Usage, text_of
from run_specialist.tools.base import Toolset
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Citation, Response


class OfflineProvider:
    """Answers from the results of search and read; deterministic for a given transcript."""

    model = "offline"
    capabilities = Capabilities(forced_choice=True, max_output_tokens=4096, is_language_model=False, vendor="offline")

    def open(self, opening: Opening, watch: Watch | None = None) -> "OfflineConversation":
        """Start a conversation; `watch` receives each block of a reply as one piece."""
        return OfflineConversation(opening, watch)

    def cost(self, usage: Usage) -> float | None:  # noqa: ARG002 - nothing is billed
        """Return 0, because no model is called."""
        return 0.0

    async def aclose(self) -> None:
        """Do nothing: this provider has no connections."""


class OfflineConversation:
    """The conversation of one run; stateless between turns."""

    def __init__(self, opening: Opening, watch: Watch | None) -> None:
        """Start a conversation with the tools of a run."""
        self._tools = opening.tools
        self._watch = watch

    async def ask(self, request: Request) -> Reply:
        """Return the next turn, a pure function of the transcript."""
        messages, choice = request.messages, request.choice
        gathered = Findings.of(messages)
        question = Question(gathered.question)
        is_last = choice is not Choice.AUTO or gathered.must_answer
        if calls := [] if is_last else next_calls(question, gathered, self._tools):
            return self._calls([(call.tool, dict(call.arguments)) for call in calls], messages)
        response = answer(question, gathered)
        if choice is Choice.NONE or (choice is Choice.AUTO and RESPOND not in self._tools):
            was_returned = text_of(messages[-1].blocks).startswith(NOT_DELIVERED)
            text = response.model_dump_json() if was_returned else response.answer
            self._show(text)
            return Reply(Stop.ANSWERED, ({"type": "text", "text": text},), reason="end_turn")
        return self._calls([(RESPOND, response.model_dump())], messages)

    def _calls(self, calls: Sequence[tuple[str, dict[str, Any]]], messages: Sequence[Message]) -> Reply:
        # Ids must be unique within a transcript, so they continue the count of previous calls.
        made = sum(block.get("type") == "tool_use" for message in messages for block in message.content)
        blocks: list[Block] = []
        for number, (name, arguments) in enumerate(calls, made + 1):
            self._show(json.dumps(arguments, ensure_ascii=False), name)
            blocks.append({"type": "tool_use", "id": f"toolu_offline_{number:04}", "name": name, "input": arguments})
        return Reply(Stop.WANTS_TOOLS, tuple(blocks), reason="tool_use")

    def _show(self, text: str, tool: str | None = None) -> None:
        if self._watch is not None:
            self._watch(Delta(text, tool))


_COMMON = 1000
"""Number of passages from which on a word has hardly any weight."""
_UNKNOWN = 30
"""Assumed number of passages for a word that was not searched for yet."""
_ORDINARY = 3.5
"""Maximum weight of a word that is not a name."""
_NAME = 1.3
_LABEL, _BEGINS, _ABOVE, _NEAR, _KIN_NEAR = 0.7, 0.6, 0.5, 0.4, 0.2
"""Weight of a term that is not in the line itself, but: in the label or heading just above; as the start of another
word; in other headings or the path, or as a synonym in the line; in adjacent lines; as a synonym there."""
_OWN, _OWN_VAGUE = 0.6, 0.35
"""Weight of a part's terms relative to those of the full question; the second if the part has few terms."""
_KIND_MATCH, _FURTHER_MATCH, _MAX_FURTHER = 1.25, 0.1, 2
"""Factor for a line that matches the kind of question, bonus per further match, maximum number of bonuses."""
_REPETITION, _NEW_WORDS = 0.8, 5
"""Factor for a unit that only repeats the question, and the number of other words for the full score."""
_TOPIC = 0.6
"""Bonus for a line whose headings and path contain all terms of the question."""
_ORDERED = 0.15
_FEW = 2
_SHORT = 30
_NUMBERED = re.compile(r"^\s*\d{1,3}[.)] |^\|\s*\d+\s*\|")
_POINTER = re.compile(r"[\w./-]+\.md\b|^\s*(?:[-*]|\d+\.)\s+(?:\*\*File\*\*: )?`[\w./-]+\.\w{1,5}`")
_CODE = re.compile(
    r"^\s*(?:```|~~~|<!--|//|#\[|@|assert |\w+(?:\.\w+)* = )"
    r"|^\s*(?:import|use|from|let|fn|def|return|pub|class|async|const|var) "
    r"|[;{]$|^\s{6,}\S"
)
_FRONT = 3
_KEY = re.compile(r"\w+:( |$)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EARLY = re.compile(r"(?i)\b(?:first|initial|original|begin|start|earl)")
_LATE = re.compile(r"(?i)\b(?:after|now|latest|current|final|later|today|still|end|last)")


@dataclass(frozen=True)
class Weights:
    """Weights of the terms of a question."""

    counts: Mapping[str, int]
    """Number of passages that contain a word, by lowercase word."""
    in_code: bool = False
    """True if the question is about a behaviour, and there is code."""

    def of(self, term: Term) -> float:
        """Return the weight of a term: highest for rare words and names."""
        count = self.counts.get(term.text.casefold(), _UNKNOWN)
        weight = log(1 + _COMMON / max(count, 1))
        # A rare name is specific; an ordinary word that is rare in the notes is not.
        if term.name:
            return _NAME * weight
        return min(weight, _ORDINARY) * (verb_factor(term) if self.in_code else 1.0)


def held(unit: Quotable, term: Term) -> float:
    """Return the confidence that a unit is about a term, from 0 to 1."""
    if is_in(term, unit.roots):
        return 1.0
    if is_in(term, unit.label_roots):
        return _LABEL
    if term.beginning and f" {term.beginning}" in unit.root_list:
        return _BEGINS
    if is_in(term, unit.heading_roots) or not term.kin.isdisjoint(unit.roots):
        return _ABOVE
    if is_in(term, unit.near_roots):
        return _NEAR
    return 0.0 if term.kin.isdisjoint(unit.near_roots) else _KIN_NEAR


class RankingTarget:
    """A question, or a part of one, with the relative weights of its terms."""

    def __init__(self, question: Question, weights: Weights) -> None:
        """Calculate the relative weights."""
        weighed = [(term, weights.of(term)) for term in question.terms]
        total = sum(weight for _, weight in weighed)
        self.question = question
        self._shares = [(term, weight / total) for term, weight in weighed if total]
        self._known: dict[Quotable, float] = {}

    def coverage(self, unit: Quotable) -> float:
        """Return the share of the question's weight that a unit covers, from 0 to 1."""
        known = self._known.get(unit)
        if known is None:
            # The terms that the unit contains as an acronym.
            found = [terms for acronym, terms in self.question.acronyms if acronym in unit.capitals]
            short = frozenset[Term]().union(*found)
            known = 0.0
            for term, share in self._shares:
                if term in short:
                    known += share
                else:
                    known += share * (held_in_code(unit, term) if isinstance(unit, CodeBlock) else held(unit, term))
            self._known[unit] = known
        return known

    def named(self, unit: Quotable) -> float:
        """Return the share of the question's weight that a unit's headings and path cover, from 0 to 1."""
        return sum(share for term, share in self._shares if is_in(term, unit.heading_roots))


def score(unit: Quotable, part: RankingTarget, full: RankingTarget) -> float:
    """Return the score of a unit as an answer to a part of a question.

    full: the full question, whose terms are the subject of the part.
    """
    question = part.question
    rated = part.coverage(unit)
    if part is not full:
        own = _OWN if any(term.name for term in question.terms) or len(question.terms) > _FEW else _OWN_VAGUE
        rated = own * rated + (1 - own) * full.coverage(unit)
    if isinstance(unit, CodeBlock):
        return rated * (1 + NAMED * full.named(unit)) * unit.form
    if not any(is_in(term, unit.roots) for term in full.question.terms):
        rated *= 0.8
    text = _NUMBERED.sub("", unit.text)
    kinds = question.kinds or full.question.kinds
    label = unit.headings[-1] if unit.headings else ""
    shown = [len(kind.shown.findall(text)) or bool(kind.above and kind.above.search(label)) for kind in kinds]
    for kind, times in zip(kinds, shown, strict=True):
        rated *= _KIND_MATCH + _FURTHER_MATCH * min(times - 1, _MAX_FURTHER) if times else kind.without
    new_words = len(unit.roots - unit.heading_roots - full.question.roots)
    rated *= 1 + _TOPIC * full.named(unit)
    novelty = min(1.0, _REPETITION + (1 - _REPETITION) * new_words / _NEW_WORDS)
    return rated * _form(unit, answers=any(shown)) * novelty


def _form(unit: Quotable, *, answers: bool) -> float:
    """Return a factor for the form of a unit: highest for prose, lower for headings, code, file references, scraps."""
    text = unit.text.strip()
    if unit.is_heading:
        return 0.8 if answers or ": " in text else 0.6
    if unit.is_label or text.endswith(":"):
        return 0.5
    is_front_matter = unit.line <= _FRONT and _KEY.match(unit.text)
    if unit.is_code or is_front_matter or _CODE.search(unit.text) or _POINTER.search(text):
        return 0.6
    if text.startswith("- [ ]") or text.endswith("?"):
        return 0.8
    return 0.8 if len(text) < _SHORT else 1.0


def scores(units: Sequence[Quotable], question: Question, weights: Weights) -> list[dict[Quotable, float]]:
    """Return the scores of units for each part of a question; dates in paths count if it asks for the first or last."""
    full = RankingTarget(question, weights)
    parts = [full if part is question else RankingTarget(part, weights) for part in question.parts]
    dates = {unit.path: date[0] for unit in units if (date := _DATE.search(unit.path))}
    order = sorted(set(dates.values()))
    position = {path: 2 * order.index(date) / max(1, len(order) - 1) - 1 for path, date in dates.items()}
    found = []
    for part in parts:
        lean = bool(_LATE.search(part.question.text)) - bool(_EARLY.search(part.question.text))
        found.append(
            {
                unit: score(unit, part, full)
                * (1 + _ORDERED * lean * position.get(unit.path, 0.0))
                * place(unit, in_code=weights.in_code)
                for unit in units
            }
        )
    return found


def best(units: Sequence[Quotable], question: Question, weights: Weights) -> list[Quotable]:
    """Return units by their best score for any part of the question, best first; their context will be read."""
    rated = scores(units, question, weights)
    return sorted(units, key=lambda unit: (-max(part[unit] for part in rated) * promise(unit), unit.path, unit.line))


def best_files(units: Iterable[Quotable], question: Question, weights: Weights) -> list[str]:
    """Rank the files by the share of the question that their seen content covers, names above all."""
    word_roots: dict[str, frozenset[str]] = {}
    for unit in units:
        word_roots[unit.path] = word_roots.get(unit.path, roots(unit.path.replace("/", " "))) | unit.roots

    def rated(path: str) -> float:
        named = roots(path.replace("/", " "))
        return sum(weights.of(term) * (is_in(term, word_roots[path]) + is_in(term, named)) for term in question.terms)

    return sorted(word_roots, key=lambda path: (-rated(path), path))


LONGEST_ANSWER = 1500
MOST_QUOTES = 8
_LONGEST_LIST = 160
_LOOKING = ("search", "grep", "read")
_MIN_SCORE = 0.4
"""Minimum score of a quote, relative to the best one."""
_MAX_OVERLAP = 0.6
"""Maximum share of words that a quote may have in common with an earlier one."""
_SAME_FILE = 0.95
"""Factor on the score per earlier quote from the same file, in favor of other files."""
_MIN_KNOWN, _MIN_COVERAGE, _MIN_ABSENT = 0.15, 0.3, 0.38
"""Minimum coverage of the question by the best line, else nothing is quoted: if one of the question's names was found;
normally; if one of its terms occurs in no file."""
_UNLIKELY, _LIKELY = 0.45, 0.62
"""Coverage below which the files hardly answer the question, and from which on they probably do."""
_FIRST, _FIRST_ONES, _OTHER = 380, 1, 280
"""Maximum length of the first quotes [characters], their number, maximum length of the others [characters]."""
_GROWS = 0.7
"""Minimum score of a line that joins an adjacent quote, relative to the quote's."""


def answer(question: Question, gathered: Findings) -> Response:
    """Return the best answer from the lines seen so far."""
    weights = Weights(gathered.counts, is_in_code(question, gathered))
    absent = [term for term in question.terms if gathered.absent(term)]
    gaps = [term.text for term in absent]
    found = all_units(gathered)
    best = max(map(RankingTarget(question, weights).coverage, found), default=0.0)
    quotes: list[Quote] = []
    if not _is_unrelated(question, absent, best):
        left = LONGEST_ANSWER - len(_lead(absent, best, place_word(())))
        quotes = list(_fitting(_Choice(question, found, weights).quotes(), left))
    if not quotes:
        return Response(
            answer=_refusal(gathered, question, absent),
            gaps=gaps or [text for text in [question.text[:200].strip()] if text],
        )
    lead = _lead(absent, best, place_word(quote.path for quote in quotes))
    return Response(
        answer="\n\n".join([lead, *map(str, quotes)]),
        evidence=[Citation(source=quote.source, quote=quote.text) for quote in quotes],
        gaps=gaps,
    )


def _is_unrelated(question: Question, absent: Sequence[Term], best: float) -> bool:
    """Return whether the lines seen so far have nothing to do with the question.

    best: coverage of the question by the best line.
    """
    names = [term for term in question.terms if term.name]
    known = [term for term in names if term not in absent]
    if names and not known:
        return True
    return best < (_MIN_KNOWN if known else _MIN_ABSENT if absent else _MIN_COVERAGE)


def _refusal(gathered: Findings, question: Question, absent: Sequence[Term]) -> str:
    if not any(completed.call.name in _LOOKING and not completed.is_error for completed in gathered.calls):
        return "Nothing could be looked up, so no file has a word in this answer."
    place = place_word(gathered.lines)
    missing = _listed([term for term in absent if term.name] or absent or question.terms)
    if not missing:
        return f"The question names nothing that could be looked up in the {place}."
    reason = "no file mentions it" if absent else "what they say nearest to it is about something else"
    return f"The {place} hold nothing on {missing}: {reason}."


def _lead(absent: Sequence[Term], best: float, place: str) -> str:
    """Return the introductory line above the quotes.

    place: the word for the quoted files.
    """
    if names := _listed(term for term in absent if term.name or best < _LIKELY):
        return f"The {place} do not mention {names}; nearest to the question they say:"
    if best < _UNLIKELY:
        return f"The {place} do not seem to answer this; nearest to the question they say:"
    return f"The {place} say, best match first:" if best >= _LIKELY else f"Nearest to the question the {place} say:"


def _listed(terms: Iterable[Term]) -> str:
    return " or ".join(term.text for term in terms)[:_LONGEST_LIST]


class _Choice:
    """Chooses quotes one by one for each part of the question, avoiding repetition."""

    def __init__(self, question: Question, found: Sequence[Quotable], weights: Weights) -> None:
        self._question = question
        self._weights = weights
        self._by_file: dict[str, list[Quotable]] = {}
        for unit in found:
            self._by_file.setdefault(unit.path, []).append(unit)
        self._scores = scores(found, question, weights)
        self._taken: set[Quotable] = set()
        self._quoted_roots: list[frozenset[str]] = []
        self._per_file: Counter[str] = Counter()

    def quotes(self) -> Iterator[Quote]:
        """Yield the best quote for each part in turn, as long as one reaches the minimum score."""
        for rated in [*self._scores] * MOST_QUOTES:
            score, unit = max(((self._score(unit, rated[unit]), unit) for unit in rated), key=itemgetter(0))
            if score >= _MIN_SCORE * max(rated.values()):
                yield self._take(unit, rated)

    def _score(self, unit: Quotable, rated: float) -> float:
        if unit in self._taken:
            return 0.0
        # Words of the question do not count as overlap.
        new_roots = unit.roots - self._question.roots
        if not new_roots:
            return 0.0  # it only repeats the question
        overlap = max((len(new_roots & quoted) / len(new_roots) for quoted in self._quoted_roots), default=0.0)
        if overlap > _MAX_OVERLAP:
            return 0.0
        return rated * (1 - 0.5 * overlap) * _SAME_FILE ** self._per_file[unit.path]

    def _take(self, unit: Quotable, rated: dict[Quotable, float]) -> Quote:
        least = _GROWS * rated[unit]
        longest = _FIRST if len(self._quoted_roots) < _FIRST_ONES else _OTHER
        block = grown(
            unit, self._by_file[unit.path], longest, lambda other: rated[other] >= least and other not in self._taken
        )
        self._taken.update(block)
        merged = replace(block[0], text="\n".join(one.text for one in block)) if len(block) > 1 else unit
        quote = cut(merged, longest, self._rate_code if isinstance(unit, CodeBlock) else self._rate)
        self._per_file[unit.path] += 1
        self._quoted_roots.append(roots(quote.text) - self._question.roots)
        return quote

    def _rate(self, text: str) -> float:
        """Rate how much of the question a piece of text covers."""
        own = roots(text)
        terms = sum(
            self._weights.of(term) * max(is_in(term, own), 0.5 * bool(term.kin & own)) for term in self._question.terms
        )
        return terms + sum(2.0 for kind in self._question.kinds if kind.shown.search(text))

    def _rate_code(self, text: str) -> float:
        return self._rate(text) + shape(text)


def _fitting(quotes: Iterable[Quote], left: int) -> Iterator[Quote]:
    """Yield the quotes that fit, in order.

    left: space for all quotes [characters].
    """
    count = 0
    for quote in quotes:
        size = len(str(quote)) + len("\n\n")
        if size <= left and count < MOST_QUOTES:
            count, left = count + 1, left - size
            yield quote


ToolAndArguments = tuple[str, Mapping[str, Any]]
"""A tool, and the arguments of a call."""
_MOST_NAMES = 120
_CODE_TERMS, _WORDS = 6, 4
_SHORTEST = 3
_LINES_ABOVE, _CODE_WINDOW = 2, 60
"""Number of lines that are read: before a definition, and in total."""


def is_in_code(question: Question, gathered: Findings) -> bool:
    """Return whether a question is about a behaviour, and code was found."""
    return question.is_about_behaviour and any(map(is_code, gathered.lines))


def named_definitions(terms: Sequence[Term], gathered: Findings) -> Iterator[ToolAndArguments]:
    """Yield a call that finds the definitions whose names contain a term of the question."""
    words = {
        word.casefold() for term in terms[:_CODE_TERMS] for word in [term.text, *names_in_code(term.text)[:_WORDS]]
    }
    stems = sorted({_stem(word) for word in words if word.isalnum() and len(word) >= _SHORTEST})
    suffixes = sorted({PurePosixPath(path).suffix[1:] for path in gathered.lines if is_code(path)})
    if stems:
        glob = f"*.{{{','.join(suffixes)}}}" if len(suffixes) > 1 else f"*.{suffixes[0]}"
        arguments = {"pattern": pattern(stems), "glob": glob, "ignore_case": True, "limit": _MOST_NAMES}
        yield "grep", arguments


def window(block: CodeBlock) -> range:
    """Return the lines to read around a block: from the start of its definition, if that is near."""
    near = block.start and block.line - block.start < _CODE_WINDOW - 10
    first = max(1, (block.start if near else block.line - 10) - _LINES_ABOVE)
    return range(first, first + _CODE_WINDOW)


def _stem(word: str) -> str:
    """Return the beginning that the inflections of a word share."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word


_NOTE = re.compile(r"(?i)\.(?:md|markdown|mdx|txt|rst|org|adoc|asciidoc)$")
_NOT_A_NOTE = re.compile(
    r"(?i)(?:^|/)(?:readme|changelog|changes|history|news|contributing|contributors|authors|licen[sc]e|copying|notice"
    r"|security|code[_-]of[_-]conduct|requirements)(?:[._][^/]*)?$"
)
_NO_PLACE_OF_NOTES = re.compile(r"(?i)(?:^|/)(?:docs?|documentation|manual|src|lib|tests?|examples?)/")


def place_word(paths: Iterable[str]) -> str:
    """Return `notes` or `files`, which are equally long; `files` if there is no path.

    paths: paths of files, relative to the root.
    """
    known = [*paths]
    return "notes" if known and all(map(_is_note, known)) else "files"


def _is_note(path: str) -> bool:
    return bool(_NOTE.search(path)) and not _NOT_A_NOTE.search(path) and not _NO_PLACE_OF_NOTES.search(path)


NAMED = 0.8
"""Bonus for a block whose definitions and path contain all terms of the question."""
_PROSE, _OLD = 0.55, 0.6
"""Factors for questions about behaviour if there is code: for prose, and additionally for changelogs."""
_CODE_ASIDE, _COMMENT_ASIDE = 0.6, 1.6
"""Factors for other questions: for statements, and for comments."""
_CHANGES = re.compile(r"(?i)(?:^|[/_-])(?:change(?:s|log)?|release[_-]?notes|releasenotes|history|news)(?:[/._-]|$)")
_CODE_NAME, _TEXT, _OUTER, _DOC, _TWICE = 0.9, 0.85, 0.7, 0.6, 0.1
"""Weight of a term that is in the name of the innermost definition; in the block; in the names around it or its path;
in its comments; bonus if it is both in the name and in the block."""
_CODE_BEGINS, _KIN = 0.7, 0.5
"""Factor if only the beginning of a word is there, or a synonym."""
_UNREAD = 1.8
_VERB = 0.6
"""Factor on the weight of a participle, because names in code usually describe its subject."""
_PARTICIPLE = re.compile(
    r"[a-z]{3,}ed|done|made|read|kept|held|sent|built|run|set|put|found|chosen|written|taken|given"
)


def held_in_code(block: CodeBlock, term: Term) -> float:
    """Return the confidence that a block is about a term, from 0 to 1."""
    known = block.known.get(term.text)
    if known is None:
        known = block.known[term.text] = _code_confidence(block, term)
    return known


def _code_confidence(block: CodeBlock, term: Term) -> float:
    best = 0.0
    for weight, words in (
        (_CODE_NAME, block.name_words),
        (_TEXT, block.words),
        (_OUTER, block.outer_words),
        (_DOC, block.doc_words),
    ):
        if weight <= best:
            break
        if is_in(term, words.roots):
            best = weight + (_TWICE if weight == _CODE_NAME and is_in(term, block.roots) else 0.0)
        elif weight * _CODE_BEGINS > best and term.beginning and f" {term.beginning}" in words.joined:
            best = weight * _CODE_BEGINS
        elif weight * _KIN > best and not term.kin_in_code.isdisjoint(words.roots):
            best = weight * _KIN
    return best


def promise(unit: Quotable) -> float:
    """Return a factor for how much reading further may reveal."""
    return _UNREAD if isinstance(unit, CodeBlock) and unit.is_unread else 1.0


def verb_factor(term: Term) -> float:
    """Return the factor on the weight of a term in a question about code."""
    return _VERB if _PARTICIPLE.fullmatch(term.text) else 1.0


def place(unit: Quotable, *, in_code: bool) -> float:
    """Return the factor for a unit that is prose where code answers, or code where prose does.

    in_code: whether the question is about a behaviour, and there is code.
    """
    if isinstance(unit, CodeBlock):
        return 1.0 if in_code else _COMMENT_ASIDE if unit.is_comment else _CODE_ASIDE
    if not in_code:
        return 1.0
    return _PROSE * (_OLD if _CHANGES.search(unit.path) else 1.0)


ENOUGH = 8
"""Number of calls after which the researcher stops, once it has read the context of the best lines."""
MOST = 16
"""Maximum number of calls."""
_AT_ONCE, _AT_ONCE_IN_CODE = 2, 3
_HOPEFUL, _SURE = 60, 5
"""Number of best lines whose context is read, before and after `ENOUGH` calls."""
_BEFORE, _WINDOW = 10, 40
_LONGEST_QUERY = 400
_FEW_HITS, _RARE = 2, 40
_TERMS, _ABSENT, _SYNONYMS, _FILES = 4, 2, 4, 6
"""Maximum numbers: terms in one query, terms absent from all files, synonyms of a term, files by name."""


@dataclass(frozen=True)
class NextCall:
    """A useful tool call."""

    tool: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The key of the resulting tool call."""
        return ToolCall("", self.tool, self.arguments).key


def next_calls(question: Question, gathered: Findings, tools: Toolset) -> list[NextCall]:
    """Return the calls of the next turn; an empty list = time to answer."""
    at_once = _AT_ONCE_IN_CODE if is_in_code(question, gathered) else _AT_ONCE
    most = min(at_once, MOST - gathered.recent) if gathered.calls else 1
    new: dict[str, NextCall] = {}
    for call in _candidates(question, gathered, tools):
        if len(new) >= most:
            break
        if call.tool in tools and call.key not in gathered.called:
            new[call.key] = call
    return list(new.values())


def _candidates(question: Question, gathered: Findings, tools: Toolset) -> Iterator[NextCall]:
    weights = Weights(gathered.counts, is_in_code(question, gathered))
    specific = sorted(question.terms, key=weights.of, reverse=True)
    yield NextCall("search", {"query": question.text[:_LONGEST_QUERY], "limit": 15})
    if "search" not in tools:
        yield from (_grep(term.text) for term in sorted(question.terms, key=_by_look)[:5])
    if weights.in_code:
        yield from (NextCall(*call) for call in named_definitions(specific, gathered))
    for part in question.parts:
        if part is not question:
            # With the most specific terms of the full question added.
            subject = [term for term in specific[:3] if term not in part.terms]
            query = " ".join(term.text for term in (*part.terms, *subject))
            yield NextCall("search", {"query": query[:_LONGEST_QUERY], "limit": 8})
    if len(specific) > _FEW_HITS:
        yield NextCall("search", {"query": " ".join(term.text for term in specific[:_TERMS]), "limit": 8})
    if others := [word for term in specific[:_TERMS] for word in term.synonyms[:_SYNONYMS]]:
        fixed = [term.text for term in specific[:3] if not term.synonyms]
        yield NextCall("search", {"query": " ".join([*fixed, *others]), "limit": 8})
    yield from (_grep(phrase) for phrase in question.phrases[:2])
    absent = [term for term in specific if gathered.counts.get(term.text.casefold()) == 0]
    for word in (term.text for term in absent[:_ABSENT]):
        # The stem of a word that was not found matches its derivations.
        yield _grep(word[: max(5, len(word) - 3)] if word.isalpha() else word)
    rare = [term for term in specific if term.name and 0 < gathered.counts.get(term.text.casefold(), 0) <= _RARE]
    yield from (_grep(term.text) for term in rare[:1])
    if not gathered.lines:
        yield from (NextCall("glob", {"pattern": f"*{term.text}*"}) for term in specific[:2] if term.text.isalnum())
        yield from _browse(gathered)
    yield from _reads(question, gathered, weights)


def _grep(text: str) -> NextCall:
    return NextCall("grep", {"pattern": literal(text), "ignore_case": True, "limit": 30})


def _by_look(term: Term) -> tuple[bool, int]:
    return not term.name, -len(term.text)


def _browse(gathered: Findings) -> Iterator[NextCall]:
    """Yield calls that list and read files, for runs in which no search found anything."""
    yield NextCall("glob", {"pattern": "*.md"})
    yield NextCall("ls", {"path": "."})
    yield from (NextCall("read", {"path": path, "offset": 1, "limit": 200}) for path in gathered.files[:_FILES])


def _reads(question: Question, gathered: Findings, weights: Weights) -> Iterator[NextCall]:
    """Yield calls that read the context of the best lines, best first."""
    windows = [found for completed in gathered.calls if (found := _window(completed.call))]
    seen = all_units(gathered)
    ranked = best(seen, question, weights)[: _SURE if gathered.recent >= ENOUGH else _HOPEFUL]
    # Notes tend to start with the essentials.
    begins = [] if weights.in_code else [(path, 1) for path in best_files(seen, question, weights)[:2]]
    for target, lines in [*((path, _around(line)) for path, line in begins), *map(_place, ranked)]:
        if not any(path == target and lines[0] in known for path, known in windows):
            windows.append((target, lines[1]))
            yield NextCall("read", {"path": target, "offset": lines[1].start, "limit": len(lines[1])})


def _place(unit: Quotable) -> tuple[str, tuple[int, range]]:
    return unit.path, (unit.line, window(unit)) if isinstance(unit, CodeBlock) else _around(unit.line)


def _around(line: int) -> tuple[int, range]:
    """Return a line, and the lines to read around it."""
    first = max(1, line - _BEFORE)
    return line, range(first, first + _WINDOW)


def _window(call: ToolCall) -> tuple[object, range] | None:
    """Return file and lines of a `read` call; None for other calls."""
    arguments = call.arguments or {}
    first, limit = arguments.get("offset", 1), arguments.get("limit", _WINDOW)
    if call.name != "read" or not isinstance(first, int) or not isinstance(limit, int):
        return None
    return arguments.get("path"), range(first, first + limit)
