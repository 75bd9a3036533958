"""An answer in quotes, within its limits, and the honest word when there is none."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from run_specialist.providers.offline.gathered import Gathered
from run_specialist.providers.offline.question import Question, Term
from run_specialist.providers.offline.ranking import Weights, coverage, is_in, score
from run_specialist.providers.offline.units import Unit, all_units
from run_specialist.providers.offline.words import roots
from run_specialist.tools.respond import Evidence, Response

LONGEST_ANSWER = 1500
LONGEST_QUOTE = 400
MOST_QUOTES = 8
_GOOD_QUOTE = 260
"""Longer ones are cut to their best sentences [characters]."""
_WORTH = 0.3
"""A quote that rates less than this share of the best one is left out."""
_ALIKE = 0.6
"""Of two quotes that share so much of their words one is enough."""
_UNCOVERED = 0.3
"""When no line holds more than this share of the question, nothing is quoted."""
_SPACE = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")


@dataclass(frozen=True)
class Quote:
    """Verbatim text and its place."""

    path: str
    line: int
    text: str

    @property
    def source(self) -> str:
        """The place as `path:line`."""
        return f"{self.path}:{self.line}"

    def __str__(self) -> str:
        return f'> "{self.text}" — {self.source}'


def answer(question: Question, gathered: Gathered) -> Response:
    """Make the best answer of what was seen."""
    weights = Weights(gathered.counts)
    absent = [term for term in question.terms if gathered.absent(term)]
    gaps = [term.text for term in absent]
    found = all_units(gathered.lines)
    best = max((coverage(unit, question, weights) for unit in found), default=0.0)
    if _says_nothing(question, absent, best):
        return Response(answer=_refusal(gathered, question, absent), gaps=gaps or [question.text[:200]])
    lead = _lead(absent, best)
    quotes = list(_fitting(_chosen(question, found, weights), LONGEST_ANSWER - len(lead)))
    if not quotes:
        return Response(answer=_refusal(gathered, question, absent), gaps=gaps or [question.text[:200]])
    return Response(
        answer="\n".join([lead, *map(str, quotes)]),
        evidence=[Evidence(source=quote.source, quote=quote.text) for quote in quotes],
        gaps=gaps,
    )


def _says_nothing(question: Question, absent: Sequence[Term], best: float) -> bool:
    """Tell whether what was seen has nothing to do with the question."""
    names = [term for term in question.terms if term.name]
    if names and all(term in absent for term in names):
        return True
    return best < _UNCOVERED


def _refusal(gathered: Gathered, question: Question, absent: Sequence[Term]) -> str:
    missing = ", ".join(term.text for term in (absent or question.terms))[:200] or question.text[:200].strip()
    if not gathered.exchanges:
        return "Nothing was looked up, so the notes have no word in this answer."
    if not missing:
        return "The question names nothing that could be looked up in the notes."
    said = "no file mentions it" if absent else "what they say nearest to it is about something else"
    return f"The notes hold nothing on {missing}: {said}."


def _lead(absent: Sequence[Term], best: float) -> str:
    if absent:
        return f"The notes do not mention {', '.join(term.text for term in absent)[:120]}; nearest to the question they say:"
    if best < 2 * _UNCOVERED:
        return "The notes do not answer this in so many words; nearest to the question they say:"
    return "The notes say, best match first:"


def _chosen(question: Question, found: Sequence[Unit], weights: Weights) -> Iterator[Quote]:
    """Choose quotes one by one: for each part of the question in turn, each time something new."""
    queues = [_rated(part, question, found, weights) for part in question.parts]
    best = max((queue[0][0] for queue in queues if queue), default=0.0)
    chosen: list[frozenset[str]] = []
    per_file: dict[str, int] = {}
    turn = 0
    while any(queues) and len(chosen) < 2 * MOST_QUOTES:
        queue = queues[turn % len(queues)]
        turn += 1
        picked = _pick(queue, chosen, per_file, best * _WORTH)
        if picked is None:
            queue.clear()
            continue
        quote = _quote(picked, question, weights)
        chosen.append(roots(quote.text))
        per_file[quote.path] = per_file.get(quote.path, 0) + 1
        yield quote


def _rated(part: Question, whole: Question, found: Iterable[Unit], weights: Weights) -> list[tuple[float, Unit]]:
    rated = [(score(unit, part, whole, weights), unit) for unit in found]
    return sorted(rated, key=lambda item: (-item[0], item[1].path, item[1].line))[:60]


def _pick(
    queue: list[tuple[float, Unit]], chosen: Sequence[frozenset[str]], per_file: dict[str, int], least: float
) -> Unit | None:
    """Take the best unit off the queue that says something new, with less from files that had their say."""

    def worth(item: tuple[float, Unit]) -> float:
        value, unit = item
        alike = max((_alike(unit.roots, other) for other in chosen), default=0.0)
        if alike > _ALIKE:
            return 0.0
        return value * (1 - 0.5 * alike) * 0.85 ** per_file.get(unit.path, 0)

    if not queue:
        return None
    top = max(queue, key=worth)
    queue.remove(top)
    return top[1] if worth(top) >= least and worth(top) > 0 else None


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / (min(len(one), len(other)) or 1)


def _quote(unit: Unit, question: Question, weights: Weights) -> Quote:
    """Cut a unit to its best sentences, or to its best words where a sentence is too long."""
    text = unit.text
    spans = list(_spans(text))
    start, end = max(spans, key=lambda span: (_told(text[slice(*span)], question, weights), -span[0]))
    return Quote(unit.path, unit.line + text.count("\n", 0, start), text[start:end])


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each piece that could be quoted."""
    begin, whole = len(text) - len(text.lstrip()), len(text.rstrip())
    if whole - begin <= _GOOD_QUOTE:
        yield begin, whole
        return
    stops = [begin, *(found.end() for found in _SENTENCE_END.finditer(text, begin, whole)), whole]
    if any(after - before > _GOOD_QUOTE for before, after in pairwise(stops)):
        stops = sorted({*stops, *(found.end() for found in _SPACE.finditer(text, begin, whole))})
    for position, start in enumerate(stops[:-1]):
        ends = [stop for stop in stops[position + 1 :] if stop - start <= _GOOD_QUOTE]
        end = ends[-1] if ends else start + _GOOD_QUOTE
        yield start, start + len(text[start:end].rstrip())


def _told(text: str, question: Question, weights: Weights) -> float:
    """Rate how much of the question a piece of text holds."""
    own = roots(text)
    terms = sum(weights.of(term) * max(is_in(term, own), 0.5 * bool(term.kin & own)) for term in question.terms)
    return terms + sum(2.0 for sign in question.answer_signs if sign.search(text))


def _fitting(quotes: Iterable[Quote], room: int) -> Iterator[Quote]:
    """Yield the quotes for which there is room, in their order."""
    given = 0
    for quote in quotes:
        size = len(str(quote)) + 1
        if size <= room and given < MOST_QUOTES:
            given, room = given + 1, room - size
            yield quote
