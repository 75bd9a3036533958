"""An answer in quotes, within its limits, and the honest word when there is none."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from run_specialist.providers.offline.gathered import Gathered
from run_specialist.providers.offline.question import Question, Term
from run_specialist.providers.offline.quotable import Quotable, all_units
from run_specialist.providers.offline.quoting import Quote, cut, grown
from run_specialist.providers.offline.ranking import RankingTarget, Weights, is_in, scores
from run_specialist.providers.offline.similarity import roots
from run_specialist.tools.respond import Evidence, Response

LONGEST_ANSWER = 1500
MOST_QUOTES = 8
_LONGEST_LIST = 160
_LOOKING = ("search", "grep", "read")
_WORTH = 0.4
"""A quote that rates less than this share of the best one is left out."""
_ALIKE = 0.6
"""Of two quotes that share so much of their words one is enough."""
_SAME_FILE = 0.95
"""What each further quote from a file counts, since another note may say more."""
_NOTHING_KNOWN, _NOTHING, _NOTHING_WITHOUT = 0.15, 0.3, 0.38
"""When no line holds this share of the question nothing is quoted: less is enough when one of its names is known,
more is asked when some word stands in no file."""
_UNLIKELY, _LIKELY = 0.45, 0.62
"""Below the one the notes hardly answer the question, from the other on they probably do."""
_FIRST, _FIRST_ONES, _OTHER = 380, 1, 280
"""How long the first few quotes may be, and the others [characters]."""
_GROWS = 0.7
"""A line joins the one that it stands beside when it rates at least this share of it."""


def answer(question: Question, gathered: Gathered) -> Response:
    """Make the best answer of what was seen."""
    weights = Weights(gathered.counts)
    absent = [term for term in question.terms if gathered.absent(term)]
    gaps = [term.text for term in absent]
    found = all_units(gathered.lines)
    best = max(map(RankingTarget(question, weights).coverage, found), default=0.0)
    lead = _lead(absent, best)
    quotes: list[Quote] = []
    if not _says_nothing(question, absent, best):
        quotes = list(_fitting(_Choice(question, found, weights).quotes(), LONGEST_ANSWER - len(lead)))
    if not quotes:
        return Response(
            answer=_refusal(gathered, question, absent),
            gaps=gaps or [text for text in [question.text[:200].strip()] if text],
        )
    return Response(
        answer="\n".join([lead, *map(str, quotes)]),
        evidence=[Evidence(source=quote.source, quote=quote.text) for quote in quotes],
        gaps=gaps,
    )


def _says_nothing(question: Question, absent: Sequence[Term], best: float) -> bool:
    """Tell whether what was seen has nothing to do with the question."""
    names = [term for term in question.terms if term.name]
    known = [term for term in names if term not in absent]
    if names and not known:
        return True
    return best < (_NOTHING_KNOWN if known else _NOTHING_WITHOUT if absent else _NOTHING)


def _refusal(gathered: Gathered, question: Question, absent: Sequence[Term]) -> str:
    if not any(exchange.call.name in _LOOKING and not exchange.failed for exchange in gathered.exchanges):
        return "Nothing could be looked up, so the notes have no word in this answer."
    missing = _listed([term for term in absent if term.name] or absent or question.terms)
    if not missing:
        return "The question names nothing that could be looked up in the notes."
    said = "no file mentions it" if absent else "what they say nearest to it is about something else"
    return f"The notes hold nothing on {missing}: {said}."


def _lead(absent: Sequence[Term], best: float) -> str:
    if names := _listed(term for term in absent if term.name or best < _LIKELY):
        return f"The notes do not mention {names}; nearest to the question they say:"
    if best < _UNLIKELY:
        return "The notes do not seem to answer this; nearest to the question they say:"
    return "The notes say, best match first:" if best >= _LIKELY else "Nearest to the question the notes say:"


def _listed(terms: Iterable[Term]) -> str:
    return " or ".join(term.text for term in terms)[:_LONGEST_LIST]


class _Choice:
    """Chooses quotes one by one, each time something new, with a word for each part of the question."""

    def __init__(self, question: Question, found: Sequence[Quotable], weights: Weights) -> None:
        self._question = question
        self._weights = weights
        self._by_file: dict[str, list[Quotable]] = {}
        for unit in found:
            self._by_file.setdefault(unit.path, []).append(unit)
        self._scores = scores(found, question, weights)
        self._taken: set[Quotable] = set()
        self._words: list[frozenset[str]] = []
        self._said: Counter[str] = Counter()

    def quotes(self) -> Iterator[Quote]:
        """Yield the best quote for each part in turn, until nothing is worth it."""
        for rated in [*self._scores] * MOST_QUOTES:
            worth, unit = max(((self._worth(unit, rated[unit]), unit) for unit in rated), key=itemgetter(0))
            if worth >= _WORTH * max(rated.values()):
                yield self._take(unit, rated)

    def _worth(self, unit: Quotable, rated: float) -> float:
        if unit in self._taken:
            return 0.0
        # That both hold the words of the question does not make two lines alike.
        news = unit.roots - self._question.roots
        if not news:
            return 0.0  # it only says the question again
        alike = max((len(news & said) / len(news) for said in self._words), default=0.0)
        if alike > _ALIKE:
            return 0.0
        return rated * (1 - 0.5 * alike) * _SAME_FILE ** self._said[unit.path]

    def _take(self, unit: Quotable, rated: dict[Quotable, float]) -> Quote:
        least = _GROWS * rated[unit]
        longest = _FIRST if len(self._words) < _FIRST_ONES else _OTHER
        block = grown(
            unit, self._by_file[unit.path], longest, lambda other: rated[other] >= least and other not in self._taken
        )
        self._taken.update(block)
        whole = replace(block[0], text="\n".join(one.text for one in block)) if len(block) > 1 else unit
        quote = cut(whole, longest, self._told)
        self._said[unit.path] += 1
        self._words.append(roots(quote.text) - self._question.roots)
        return quote

    def _told(self, text: str) -> float:
        """Rate how much of the question a piece of text holds."""
        own = roots(text)
        terms = sum(
            self._weights.of(term) * max(is_in(term, own), 0.5 * bool(term.kin & own)) for term in self._question.terms
        )
        return terms + sum(2.0 for sign in self._question.signs if sign.shown.search(text))


def _fitting(quotes: Iterable[Quote], room: int) -> Iterator[Quote]:
    """Yield the quotes for which there is room, in their order."""
    given = 0
    for quote in quotes:
        size = len(str(quote)) + 1
        if size <= room and given < MOST_QUOTES:
            given, room = given + 1, room - size
            yield quote
