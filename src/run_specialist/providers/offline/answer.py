"""Compose an answer of verbatim quotes, or a statement that nothing was found."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from run_specialist.providers.offline.all_units import all_units
from run_specialist.providers.offline.code_block import CodeBlock, shape
from run_specialist.providers.offline.code_calls import is_in_code
from run_specialist.providers.offline.gathered import Findings
from run_specialist.providers.offline.place_word import place_word
from run_specialist.providers.offline.question import Question, Term, is_in
from run_specialist.providers.offline.quotable import Quotable
from run_specialist.providers.offline.quoting import Quote, cut, grown
from run_specialist.providers.offline.ranking import RankingTarget, Weights, scores
from run_specialist.providers.offline.similarity import roots
from run_specialist.tools.respond import Citation, Response

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
