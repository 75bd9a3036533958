"""Rank lines and files by how well they answer a question."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from run_specialist.providers.offline.code_block import CodeBlock
from run_specialist.providers.offline.code_ranking import NAMED, held_in_code, place, promise, verb_factor
from run_specialist.providers.offline.question import Question, Term, is_in
from run_specialist.providers.offline.quotable import Quotable
from run_specialist.providers.offline.similarity import roots

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


def _confidence(unit: Quotable, term: Term) -> float:
    return held_in_code(unit, term) if isinstance(unit, CodeBlock) else held(unit, term)


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
            short = self._short(unit)
            known = sum(
                share * (1.0 if short and term in short else _confidence(unit, term)) for term, share in self._shares
            )
            self._known[unit] = known
        return known

    def named(self, unit: Quotable) -> float:
        """Return the share of the question's weight that a unit's headings and path cover, from 0 to 1."""
        return sum(share for term, share in self._shares if is_in(term, unit.heading_roots))

    def _short(self, unit: Quotable) -> frozenset[Term]:
        """Return the terms that a unit contains as an acronym."""
        short = [terms for acronym, terms in self.question.acronyms if acronym in unit.capitals]
        return frozenset[Term]().union(*short)


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
    if unit.is_code or _CODE.search(unit.text) or _POINTER.search(text) or _is_front(unit):
        return 0.6
    if text.startswith("- [ ]") or text.endswith("?"):
        return 0.8
    return 0.8 if len(text) < _SHORT else 1.0


def _is_front(unit: Quotable) -> bool:
    """Return whether a unit is the front matter of a note."""
    return unit.line <= _FRONT and _KEY.match(unit.text) is not None


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
