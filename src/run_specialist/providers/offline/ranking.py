"""Which lines answer a question best."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from run_specialist.providers.offline.question import Question, Term
from run_specialist.providers.offline.quotable import Quotable
from run_specialist.providers.offline.similarity import roots

_COMMON = 1000
"""A word in this many passages says next to nothing."""
_UNKNOWN = 30
"""How many passages a word is thought to be in before a search has told."""
_ORDINARY = 3.5
"""The most that a word can weigh that is no name."""
_NAME = 1.3
_LABEL, _BEGINS, _ABOVE, _NEAR, _KIN_NEAR = 0.7, 0.6, 0.5, 0.4, 0.2
"""What a term counts that is not in a line itself: in the label or heading just above; as the beginning of another
word; in other headings or the path, or by its kin in the line; in the lines beside it, or by its kin there."""
_OWN, _OWN_VAGUE = 0.6, 0.35
"""The weight of a part's own words against those of the whole question; less when they are few."""
_SIGN, _AGAIN, _AGAIN_MOST = 1.25, 0.1, 2
"""What a line counts that shows a sign of an answer, and what more for each further sign."""
_NEWS, _MUCH_NEWS = 0.8, 5
"""What a unit counts that only repeats the question, and how many other words make it count in full."""
_TOPIC = 0.6
"""What a line counts more whose headings and path name all that the question is about."""
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
    """How much each term of a question says."""

    counts: Mapping[str, int]
    """How many passages hold a word."""

    def of(self, term: Term) -> float:
        """Return the weight of a term: rare words and names say most."""
        count = self.counts.get(term.text.casefold(), _UNKNOWN)
        weight = log(1 + _COMMON / max(count, 1))
        # A rare name tells much; that the notes seldom use an ordinary word of the question tells little.
        return _NAME * weight if term.name else min(weight, _ORDINARY)


def is_in(term: Term, words: frozenset[str]) -> bool:
    """Tell whether one of a term's spellings is among the roots of some words."""
    for form in term.forms:  # noqa: SIM110 - the innermost loop of a run; any() takes twice as long
        if form <= words:
            return True
    return False


def held(unit: Quotable, term: Term) -> float:
    """Return how surely a unit is about a term, from 0 to 1."""
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
    """A question, or a part of one, with the share that each of its terms has in it."""

    def __init__(self, question: Question, weights: Weights) -> None:
        """Weigh the terms."""
        weighed = [(term, weights.of(term)) for term in question.terms]
        whole = sum(weight for _, weight in weighed)
        self.question = question
        self._shares = [(term, weight / whole) for term, weight in weighed if whole]
        self._known: dict[Quotable, float] = {}

    def coverage(self, unit: Quotable) -> float:
        """Return how much of the question's weight a unit holds, from 0 to 1."""
        known = self._known.get(unit)
        if known is None:
            short = self._short(unit)
            known = sum(share * (1.0 if short and term in short else held(unit, term)) for term, share in self._shares)
            self._known[unit] = known
        return known

    def named(self, unit: Quotable) -> float:
        """Return how much of the question's weight the headings and the path of a unit hold."""
        return sum(share for term, share in self._shares if is_in(term, unit.heading_roots))

    def _short(self, unit: Quotable) -> frozenset[Term]:
        """Return the terms that stand in a unit as the letters of an acronym."""
        short = [terms for acronym, terms in self.question.acronyms if acronym in unit.capitals]
        return frozenset[Term]().union(*short)


def score(unit: Quotable, part: RankingTarget, whole: RankingTarget) -> float:
    """Rate how well a unit answers a part of a question.

    whole: the question that the part is of; its words say what the part is about.
    """
    question = part.question
    rated = part.coverage(unit)
    if part is not whole:
        own = _OWN if any(term.name for term in question.terms) or len(question.terms) > _FEW else _OWN_VAGUE
        rated = own * rated + (1 - own) * whole.coverage(unit)
    if not any(is_in(term, unit.roots) for term in whole.question.terms):
        rated *= 0.8
    text = _NUMBERED.sub("", unit.text)
    signs = question.signs or whole.question.signs
    label = unit.headings[-1] if unit.headings else ""
    shown = [len(sign.shown.findall(text)) or bool(sign.above and sign.above.search(label)) for sign in signs]
    for sign, times in zip(signs, shown, strict=True):
        rated *= _SIGN + _AGAIN * min(times - 1, _AGAIN_MOST) if times else sign.without
    news = len(unit.roots - unit.heading_roots - whole.question.roots)
    rated *= 1 + _TOPIC * whole.named(unit)
    return rated * _form(unit, answers=any(shown)) * min(1.0, _NEWS + (1 - _NEWS) * news / _MUCH_NEWS)


def _form(unit: Quotable, *, answers: bool) -> float:
    """Rate what a unit looks like: prose says more than headings, code, pointers to files and scraps."""
    text = unit.text.strip()
    if unit.is_heading:
        return 0.8 if answers or ": " in text else 0.6
    if unit.is_label or text.endswith(":"):
        return 0.5
    if unit.is_code or _CODE.search(unit.text) or _POINTER.search(text) or _is_front(unit):
        return 0.6
    if text.startswith("- [ ]") or text.endswith("?"):
        return 0.8
    return 0.8 if len(text) < _SHORT else 1.0


def _is_front(unit: Quotable) -> bool:
    """Tell whether a unit is the front matter of a note."""
    return unit.line <= _FRONT and _KEY.match(unit.text) is not None


def scores(units: Sequence[Quotable], question: Question, weights: Weights) -> list[dict[Quotable, float]]:
    """Rate units for each part of a question; where it asks for the first or the last state, dates of notes count."""
    whole = RankingTarget(question, weights)
    parts = [whole if part is question else RankingTarget(part, weights) for part in question.parts]
    dates = {unit.path: date[0] for unit in units if (date := _DATE.search(unit.path))}
    order = sorted(set(dates.values()))
    place = {path: 2 * order.index(date) / max(1, len(order) - 1) - 1 for path, date in dates.items()}
    found = []
    for part in parts:
        lean = bool(_LATE.search(part.question.text)) - bool(_EARLY.search(part.question.text))
        found.append(
            {unit: score(unit, part, whole) * (1 + _ORDERED * lean * place.get(unit.path, 0.0)) for unit in units}
        )
    return found


def best(units: Sequence[Quotable], question: Question, weights: Weights) -> list[Quotable]:
    """Rank units by how well they answer one of the parts of a question, best first."""
    rated = scores(units, question, weights)
    return sorted(units, key=lambda unit: (-max(part[unit] for part in rated), unit.path, unit.line))


def best_files(units: Iterable[Quotable], question: Question, weights: Weights) -> list[str]:
    """Rank the files by how much of the question all that was seen of them holds, their names above all."""
    words: dict[str, frozenset[str]] = {}
    for unit in units:
        words[unit.path] = words.get(unit.path, roots(unit.path.replace("/", " "))) | unit.roots

    def rated(path: str) -> float:
        named = roots(path.replace("/", " "))
        return sum(weights.of(term) * (is_in(term, words[path]) + is_in(term, named)) for term in question.terms)

    return sorted(words, key=lambda path: (-rated(path), path))
