"""The offline researcher, which is no language model: its next calls, the ranking of what it found, its answer."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise, takewhile, zip_longest
from math import log
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from run_specialist.prompts import NOT_DELIVERED
from run_specialist.providers.base import NO_MATCH, WEAK_MATCH, Capabilities, Choice, Delta, Opening, Request, Watch
from run_specialist.providers.offline_text import (
    Findings,
    Term,
    Unit,
    code_units,
    definitions,
    file_pattern,
    is_about_behaviour,
    is_code,
    prose_units,
    root,
    roots,
    synonyms,
    terms_of,
)
from run_specialist.record.messages import Block, Message, Reply, Stop, ToolCall, Usage, text_of
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.tools.base import Toolset
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


@dataclass(frozen=True)
class OfflineConversation:
    """The conversation of one run; stateless between turns."""

    opening: Opening
    watch: Watch | None

    async def ask(self, request: Request) -> Reply:
        """Return the next turn, a pure function of the transcript."""
        messages, choice = request.messages, request.choice
        ranking = Ranking(Findings(messages))
        is_last = choice is not Choice.AUTO or ranking.gathered.must_answer
        if calls := [] if is_last else next_calls(ranking, self.opening.tools):
            return self._calls(calls, messages)
        response, match = answer(ranking)
        if choice is Choice.NONE or (choice is Choice.AUTO and RESPOND not in self.opening.tools):
            was_returned = text_of(messages[-1].blocks).startswith(NOT_DELIVERED)
            text = response.model_dump_json(exclude_none=True) if was_returned else response.answer
            self._show(text)
            return Reply(Stop.ANSWERED, ({"type": "text", "text": text},), reason=match or "end_turn")
        return replace(
            self._calls([(RESPOND, response.model_dump(exclude_none=True))], messages), reason=match or "tool_use"
        )

    def _calls(self, calls: "Sequence[Call]", messages: Sequence[Message]) -> Reply:
        # Ids must be unique within a transcript, so they continue the count of previous calls.
        made = sum(block.get("type") == "tool_use" for message in messages for block in message.content)
        blocks: list[Block] = []
        for number, (name, arguments) in enumerate(calls, made + 1):
            self._show(json.dumps(arguments, ensure_ascii=False), name)
            blocks.append({"type": "tool_use", "id": f"toolu_offline_{number:04}", "name": name, "input": arguments})
        return Reply(Stop.WANTS_TOOLS, tuple(blocks), reason="tool_use")

    def _show(self, text: str, tool: str | None = None) -> None:
        if self.watch is not None:
            self.watch(Delta(text, tool))


# Number of passages from which on a word has hardly any weight; assumed number for a word not searched for yet.
_COMMON, _UNKNOWN = 1000, 30
# Maximum weight of a word that is not a name; factor for names.
_ORDINARY, _NAME = 3.5, 1.3
# Bonus for a unit whose headings and path contain all terms of the question: for prose, for code.
_TOPIC, _NAMED = 0.6, 0.8
# Factor for prose where code answers.
_PROSE = 0.55
# Factor for how much reading an unread definition may reveal.
_UNREAD = 1.8
# Share of the weight that one file must exceed and one unit must reach, else the match is weak; terms that count.
_IN_FILE, _IN_UNIT, _MOST_COUNTED = 0.5, 0.4, 15


class Ranking:
    """What was found so far: by unit the share of the question's weight that it covers, and how well it answers."""

    def __init__(self, gathered: Findings) -> None:
        """Calculate the weight of each term: highest for rare words and names."""
        self.gathered = gathered
        terms, self.of_question = terms_of(gathered.question), roots(gathered.question)
        self.files = {one: gathered.matching(one) for term in terms if (one := file_pattern(term.text))}
        """Files that the question names, by the pattern that finds them; they are read instead of searched for."""
        self.named = [path for paths in self.files.values() for path in paths if path in gathered.lines]
        self.terms = tuple(term for term in terms if not self.files.get(file_pattern(term.text)))
        self.in_code = is_about_behaviour(gathered.question) and any(map(is_code, gathered.lines))
        self.weights: dict[Term, float] = {}
        for term in self.terms:
            weight = log(1 + _COMMON / max(gathered.counts.get(term.text.casefold(), _UNKNOWN), 1))
            # A rare name is specific; an ordinary word that is rare in the notes is not.
            self.weights[term] = _NAME * weight if term.is_name else min(weight, _ORDINARY)
        # No file has half of a long brief.
        self._total = self._weigh(self.terms) * min(1.0, _MOST_COUNTED / max(len(self.terms), 1)) or 1.0
        self.units: list[Unit] = []
        for path, lines in gathered.lines.items():
            if is_code(path):
                rows = tuple((number, line.text, line.origin) for number, line in sorted(lines.items()))
                self.units += code_units(path, rows)
            else:
                self.units += prose_units(path, lines)
        self.coverage = {
            unit: sum(weight * unit.confidence(term) for term, weight in self.weights.items()) / self._total
            for unit in self.units
        }
        self.scores = {unit: covered and covered * self._factor(unit) for unit, covered in self.coverage.items()}
        held: dict[str, set[Term]] = {path: set() for path in gathered.lines}
        for unit in self.units:
            held[unit.path].update(one for one in self.terms if one.is_in(unit.roots) or one.is_in(unit.above))
        self.outlined = [] if any(held[path] for path in self.named) else self.named
        """The files that the question names, if it asks for nothing that is in them."""
        known = max(held.values(), key=self._weigh, default=set[Term]())
        self.missing = [term for term in self.terms if term not in known]
        """The terms that are not in the file with the largest share of the question's weight."""
        self.best = max(self.coverage.values(), default=0.0)
        # A file that the question names counts as a rare name.
        named = _NAME * log(1 + _COMMON) if self.named else 0.0
        share = (named + self._weigh(known)) / (named + self._total)
        self.is_weak = share <= _IN_FILE or (self.best < _IN_UNIT and not self.named)
        self.absent = [term for term in self.terms if gathered.absent(term)]

    def _weigh(self, terms: Iterable[Term]) -> float:
        return sum(map(self.weights.__getitem__, terms))

    def _factor(self, unit: Unit) -> float:
        above = self._weigh(term for term in self.terms if term.is_in(unit.above)) / self._total
        factor = unit.form * (1 + (_NAMED if unit.is_code else _TOPIC) * above)
        return factor * (_PROSE if self.in_code and not unit.is_code else 1.0)

    def rate(self, text: str) -> float:
        """Rate how well a piece of a unit stands for it, by the terms in it."""
        found = roots(text)
        return sum(weight * max(one.is_in(found), 0.5 * bool(one.kin & found)) for one, weight in self.weights.items())


Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""
ENOUGH, MOST = 8, 16
"""Number of calls after which the researcher stops, once it has read the context of the best lines; maximum."""
_AT_ONCE, _AT_ONCE_IN_CODE = 2, 3
# Number of best lines whose context is read, before and after `ENOUGH` calls.
_HOPEFUL, _SURE = 60, 5
# Number of lines that are read: before a line, in total, and around code.
_BEFORE, _WINDOW, _CODE_WINDOW = 10, 40, 60
_LONGEST_QUERY, _MOST_NAMES, _FILES = 4000, 120, 6
# Number of lines that are read of a file that the question names; maximum number of such names.
_WHOLE, _MOST_FILES = 400, 2


def next_calls(ranking: Ranking, tools: Toolset) -> list[Call]:
    """Return the calls of the next turn; an empty list = time to answer."""
    gathered = ranking.gathered
    most = min(_AT_ONCE_IN_CODE if ranking.in_code else _AT_ONCE, MOST - gathered.recent) if gathered.calls else 1
    called = {completed.call.key for completed in gathered.calls}
    new: dict[str, Call] = {}
    for name, arguments in _candidates(ranking, with_search="search" in tools):
        if len(new) >= most:
            break
        key = ToolCall("", name, arguments).key
        if name in tools and key not in called:
            new[key] = name, arguments
    return list(new.values())


def _candidates(ranking: Ranking, *, with_search: bool) -> Iterator[Call]:
    gathered = ranking.gathered
    specific = sorted(ranking.terms, key=ranking.weights.__getitem__, reverse=True)
    for name, paths in [*ranking.files.items()][:_MOST_FILES]:
        yield "glob", {"pattern": f"**/{name}", "limit": 9}
        yield from (("read", {"path": path, "offset": 1, "limit": _WHOLE}) for path in paths)
    yield "search", {"query": gathered.question[:_LONGEST_QUERY], "limit": 15}
    if not with_search:
        yield from (_grep(term.text) for term in specific[:5])
    if ranking.in_code:
        words = [word for term in specific[:6] for word in (term.text, *synonyms(term.text)[:4])]
        suffixes = sorted({PurePosixPath(path).suffix[1:] for path in gathered.lines if is_code(path)})
        if pattern := definitions(words):
            glob = f"*.{{{','.join(suffixes)}}}" if len(suffixes) > 1 else f"*.{suffixes[0]}"
            yield "grep", {"pattern": pattern, "glob": glob, "ignore_case": True, "limit": _MOST_NAMES}
    for term in ranking.absent[:2]:
        # The stem of a word that was not found matches its derivations.
        yield _grep(term.text[: max(5, len(term.text) - 3)] if term.text.isalpha() else term.text)
    if not gathered.lines:
        yield from (("glob", {"pattern": f"*{term.text}*"}) for term in specific[:2] if term.text.isalnum())
        yield "glob", {"pattern": "*.md"}
        yield "ls", {"path": "."}
        yield from (("read", {"path": path, "offset": 1, "limit": 200}) for path in gathered.files[:_FILES])
    yield from _reads(ranking)


def _grep(text: str) -> Call:
    return "grep", {"pattern": re.escape(text[:80]), "ignore_case": True, "limit": 30}


def _reads(ranking: Ranking) -> Iterator[Call]:
    """Yield calls that read the context of the best lines, best first."""
    seen: list[tuple[object, range]] = []
    for completed in ranking.gathered.calls:
        arguments = completed.call.arguments or {}
        first, limit = arguments.get("offset", 1), arguments.get("limit", _WINDOW)
        if completed.call.name == "read" and isinstance(first, int) and isinstance(limit, int):
            seen.append((arguments.get("path"), range(first, first + limit)))

    promise = {unit: score * (_UNREAD if unit.is_unread else 1.0) for unit, score in ranking.scores.items()}
    best = sorted(ranking.units, key=lambda unit: (-promise[unit], unit.path, unit.line))
    for unit in best[: _SURE if ranking.gathered.recent >= ENOUGH else _HOPEFUL]:
        is_near = unit.start and unit.line - unit.start < _CODE_WINDOW - _BEFORE
        begin = unit.start if is_near else unit.line - _BEFORE
        first, length = (max(1, begin - 2), _CODE_WINDOW) if unit.is_code else (max(1, begin), _WINDOW)
        about = first if unit.is_code else unit.line
        if not any(path == unit.path and about in lines for path, lines in seen):
            seen.append((unit.path, range(first, first + length)))
            yield "read", {"path": unit.path, "offset": first, "limit": length}


LONGEST_ANSWER, MOST_QUOTES = 1500, 8
# Maximum length of the first quote and of the others [characters]; number of lines from the beginning of a definition.
_FIRST, _OTHER, _BEGINNING = 380, 280, 6
# Minimum score of a quote relative to the best one, and of a line that joins it; factor per earlier quote of a file.
_MIN_SCORE, _GROWS, _SAME_FILE = 0.4, 0.7, 0.95
# Minimum coverage by the best unit if no name of the question was found; number of quotes from a weak match.
_LEAST, _MOST_WEAK = 0.3, 2
# Minimum share of the question's weight in quotes whose numbers are compared.
_SAME_THING = 0.6


class Quote(NamedTuple):
    """Verbatim text with its source."""

    source: str
    """Path and line, as `path:line`."""
    text: str
    is_code: bool

    def __str__(self) -> str:
        if self.is_code:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
            source = self.source if "`" in self.source else f"`{self.source}`"
            language = PurePosixPath(self.source.rpartition(":")[0]).suffix[1:]
            return f"{source}\n{fence}{language}\n{self.text}\n{fence}"
        return f'> "{self.text}" — {self.source}'


def answer(ranking: Ranking) -> tuple[Response, str]:
    """Return the best answer from the lines seen so far, and `WEAK_MATCH`, `NO_MATCH` or an empty text."""
    absent, is_weak = ranking.absent, ranking.is_weak
    names = [term for term in ranking.terms if term.is_name]
    known = [term for term in names if term not in absent]
    lead = _lead(absent, is_weak=is_weak)
    quotes: list[Quote] = []
    if ranking.units and (known or ranking.named or (not names and ranking.best >= _LEAST)):
        left, most = LONGEST_ANSWER - len(lead), _MOST_WEAK if is_weak else MOST_QUOTES
        outlines = (_outline(ranking, path) for path in ranking.outlined)
        for quote in [*filter(None, chain.from_iterable(zip_longest(*outlines)))] or _quotes(ranking):
            size = len(str(quote)) + len("\n\n")
            if size <= left and len(quotes) < most:
                quotes.append(quote)
                left -= size
    if differing := _differing(quotes, ranking):
        quotes.sort(key=lambda quote: quote not in differing)
        lead = f"{differing[0].source} and {differing[1].source} give different numbers.\n\n{lead}"
    gaps = [term.text for term in absent or (ranking.missing if quotes and is_weak else ())]
    if not quotes:
        gaps = gaps or [text for text in [ranking.gathered.question[:200].strip()] if text]
        return Response(answer=_refusal(ranking), gaps=gaps), NO_MATCH
    evidence = [Citation(source=quote.source, quote=quote.text) for quote in quotes]
    response = Response(answer="\n\n".join([lead, *map(str, quotes)]), evidence=evidence, gaps=gaps)
    return response, WEAK_MATCH if is_weak else ""


def _refusal(ranking: Ranking) -> str:
    looked_up = (one for one in ranking.gathered.calls if one.call.name in ("search", "grep", "read"))
    if all(completed.is_error for completed in looked_up):
        return "Nothing could be looked up, so no file has a word in this answer."
    absent = ranking.absent
    missing = _listed([term for term in absent if term.is_name] or absent or ranking.terms)
    if not missing:
        return "The question names nothing that could be looked up in the files."
    reason = "no file mentions it" if absent else "what they say nearest to it is about something else"
    return f"The files hold nothing on {missing}: {reason}."


def _lead(absent: Sequence[Term], *, is_weak: bool) -> str:
    """Return the introductory line above the quotes."""
    start = "Weak match: the" if is_weak else "The"
    if names := _listed(term for term in absent if term.is_name or is_weak):
        return f"{start} files do not mention {names}; nearest to the question they say:"
    return f"{start} files say nearest to the question:" if is_weak else "The files say, best match first:"


# A number and what it counts, or a name and its value.
_COUNTED = re.compile(r"(?<![\w.,/-])(\d[\d.,]*)%?\s+((?:[^\W\d_]+\s*){1,2})")
_VALUED = re.compile(r"([^\W\d_]+)[\s:=*`]+(?:(?:is|was|to|of|at|most)\s+){0,2}(\d[\d.,]*)(?![\w/-])")


def _differing(quotes: Sequence[Quote], ranking: Ranking) -> Sequence[Quote]:
    """Return the first two quotes of prose that hold most of the question and differ in a number it asks for."""
    asked = frozenset[str]().union(*(form for term in ranking.terms for form in term.forms))
    asked -= _numbers(ranking.gathered.question).keys()
    least = _SAME_THING * sum(ranking.weights.values())
    close = [quote for quote in quotes if not quote.is_code and ranking.rate(quote.text) >= least]
    for one, other in combinations(close, 2):
        numbers, others = _numbers(one.text), _numbers(other.text)
        if any(numbers[word].isdisjoint(others[word]) for word in asked & numbers.keys() & others.keys()):
            return one, other
    return ()


def _numbers(text: str) -> dict[str, set[str]]:
    """Return the numbers beside each word of a text, by its root."""
    found: dict[str, set[str]] = {}
    counted = ((word, number) for number, words in _COUNTED.findall(text) for word in words.split())
    for word, number in chain(counted, _VALUED.findall(text)):
        found.setdefault(root(word), set()).add(number.rstrip(".,"))
    return found


def _listed(terms: Iterable[Term]) -> str:
    return " or ".join(term.text for term in terms)[:160]


def _quotes(ranking: Ranking) -> Iterator[Quote]:
    """Yield the best quotes, avoiding repetition."""
    best = max(ranking.scores.values(), default=0.0)
    of_question = ranking.of_question
    following = dict(pairwise(ranking.units))
    taken: set[Unit] = set()
    quoted: list[frozenset[str]] = []
    per_file: Counter[str] = Counter()

    def value(unit: Unit) -> float:
        # Words of the question do not count as overlap.
        new = unit.roots - of_question
        if unit in taken or not new:
            return 0.0
        overlap = max((len(new & earlier) / len(new) for earlier in quoted), default=0.0)
        return ranking.scores[unit] * (1 - 0.5 * overlap) * _SAME_FILE ** per_file[unit.path]

    in_named = [unit for unit in ranking.units if unit.path in ranking.named]
    for _ in range(2 * MOST_QUOTES):
        unit = max(ranking.units if taken else in_named or ranking.units, key=value)
        if taken and value(unit) < _MIN_SCORE * best:
            return
        longest = _OTHER if quoted else _FIRST
        block = [unit]
        # A quote grows by the lines below it that answer nearly as well.
        while after := following.get(block[-1]):
            end = block[-1].line + block[-1].text.count("\n")
            is_next = (after.path, after.line, after.headings) == (unit.path, end + 1, unit.headings)
            is_good = after not in taken and ranking.scores[after] >= _GROWS * ranking.scores[unit]
            if not (is_next and is_good) or sum(len(one.text) + 1 for one in block) + len(after.text) > longest:
                break
            block.append(after)
        taken.update(block)
        quote = _cut(replace(unit, text="\n".join(one.text for one in block)), longest, ranking)
        per_file[unit.path] += 1
        quoted.append(roots(quote.text) - of_question)
        yield quote


def _outline(ranking: Ranking, path: str) -> Iterator[Quote]:
    """Yield the beginning of a file, and of its definitions or paragraphs."""
    lines, units = ranking.gathered.lines[path], [unit for unit in ranking.units if unit.path == path]
    texts = [unit for unit in units if unit.form == 1.0]
    # Front matter is above the first heading.
    starts = {unit.line for unit in texts if unit.headings} or {unit.line for unit in texts}
    if is_code(path):
        comments = [unit.line for unit in units if unit.is_comment and not unit.headings]
        starts = {*comments[:1], *(unit.start for unit in units if len(unit.headings) == 1)}
    end = 0
    for start in sorted(starts):
        known = (lines[at].text if at in lines else "" for at in range(start, start + _BEGINNING))
        if start > end and (rows := [*takewhile(str.strip, known)]):
            end = start + len(rows) - 1
            yield Quote(f"{path}:{start}", "\n".join(rows)[:_FIRST], is_code(path))


# Where a piece may start or end, preferred boundaries first.
_ENDS = (re.compile(r"(?<=[.!?;])\s+"), re.compile(r"\n\s*"), re.compile(r"\s+"))
# The same in code, where a piece begins with its indentation.
_LINE_ENDS = (re.compile(r"\n"), re.compile(r"\s+"))


def _cut(unit: Unit, longest: int, ranking: Ranking) -> Quote:
    """Return a quote of at most so many characters: all of a unit, else the best sentences, else lines or words."""
    text, end_of_text = unit.text, len(unit.text.rstrip())
    begin = 0 if unit.is_code else len(text) - len(text.lstrip())
    stops = [begin, end_of_text]
    for ends in _LINE_ENDS if unit.is_code else _ENDS:
        if all(after - before <= longest for before, after in pairwise(stops)):
            break
        stops = sorted({*stops, *(found.end() for found in ends.finditer(text, begin, end_of_text))})
    spans = []
    for position, start in enumerate(stops[:-1]):
        end = max((stop for stop in stops[position + 1 :] if stop - start <= longest), default=start + longest)
        spans.append((start, start + len(text[start:end].rstrip())))
    start, end = max(spans, key=lambda span: (ranking.rate(text[slice(*span)]), -span[0]))
    line = unit.line + text.count("\n", 0, start)
    return Quote(f"{unit.path}:{line}", text[start:end], unit.is_code)
