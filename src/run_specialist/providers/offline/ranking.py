"""Which lines answer a question best."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

from run_specialist.providers.offline.question import Question, Term
from run_specialist.providers.offline.units import Unit
from run_specialist.providers.offline.words import roots

_COMMON = 1000
"""A word in this many passages says next to nothing."""
_UNKNOWN = 30
"""How many passages a word is thought to be in before a search has told."""
_LABEL, _NEAR, _ABOVE, _KIN, _KIN_NEAR = 0.7, 0.45, 0.5, 0.5, 0.2
"""What a term counts that is not in a line itself: above it, beside it, in a heading or the path, by its kin."""
_SHORT = 30
_ORDINARY = 3.5
_POINTER = re.compile(r"[\w./-]+\.md\b")
_CODE = re.compile(r"^\s*(?:```|~~~|<!--|import |use |from |let |fn |def |return |//|#\[)|[;{]$")


@dataclass(frozen=True)
class Weights:
    """How much each term of a question says."""

    counts: Mapping[str, int]

    def of(self, term: Term) -> float:
        """Return the weight of a term: rare words and names say most."""
        count = self.counts.get(term.text.casefold(), _UNKNOWN)
        weight = log(1 + _COMMON / max(count, 1))
        # A rare name tells much; that the notes seldom use an ordinary word of the question tells little.
        return 1.3 * weight if term.name else min(weight, _ORDINARY)


def is_in(term: Term, words: frozenset[str]) -> bool:
    """Tell whether one of a term's spellings is among the roots of some words."""
    return any(form <= words for form in term.forms)


def held(unit: Unit, term: Term) -> float:
    """Return how surely a unit is about a term, from 0 to 1."""
    if is_in(term, unit.roots):
        return 1.0
    return max(
        _LABEL * is_in(term, unit.label_roots),
        _ABOVE * is_in(term, unit.heading_roots),
        _NEAR * is_in(term, unit.context_roots | unit.roots),
        _KIN * bool(term.kin & unit.roots),
        _KIN_NEAR * bool(term.kin & unit.context_roots),
    )


def coverage(unit: Unit, question: Question, weights: Weights) -> float:
    """Return how much of a question's weight a unit holds, from 0 to 1."""
    whole = sum(map(weights.of, question.terms))
    return sum(weights.of(term) * held(unit, term) for term in question.terms) / whole if whole else 0.0


def score(unit: Unit, question: Question, whole: Question, weights: Weights) -> float:
    """Rate how well a unit answers a part of a question.

    whole: the question that the part is of; its words say what the part is about.
    """
    own = coverage(unit, question, weights)
    rated = own if question is whole else 0.6 * own + 0.4 * coverage(unit, whole, weights)
    for sign in question.answer_signs:
        rated *= 1.25 if sign.search(unit.text) else 0.95
    if not any(is_in(term, unit.roots) for term in whole.terms):
        rated *= 0.4 if unit.is_heading else 0.8
    return rated * _form(unit, answers=any(sign.search(unit.text) for sign in question.answer_signs))


def _form(unit: Unit, *, answers: bool) -> float:
    """Rate what a unit looks like: prose says more than headings, code, pointers to files and scraps."""
    text = unit.text.strip()
    if unit.is_heading:
        return 0.8 if answers else 0.6
    if text.rstrip("*_").endswith(":"):
        return 0.5
    if unit.is_code or _CODE.search(text) or _POINTER.search(text):
        return 0.6
    if text.startswith("- [ ]") or text.endswith("?"):
        return 0.8
    return 0.8 if len(text) < _SHORT else 1.0


def best_files(units: Iterable[Unit], question: Question, weights: Weights) -> list[str]:
    """Rank the files by how much of the question all that was seen of them holds, their names above all."""
    words: dict[str, frozenset[str]] = {}
    for unit in units:
        words[unit.path] = words.get(unit.path, roots(unit.path.replace("/", " "))) | unit.roots

    def rated(path: str) -> float:
        named = roots(path.replace("/", " "))
        return sum(weights.of(term) * (is_in(term, words[path]) + is_in(term, named)) for term in question.terms)

    return sorted(words, key=lambda path: (-rated(path), path))


def best(units: Iterable[Unit], question: Question, weights: Weights) -> list[tuple[float, Unit]]:
    """Rank units by how well they answer the question or one of its parts, best first."""
    rated = [
        (max(score(unit, part, question, weights) for part in {question, *question.parts}), unit) for unit in units
    ]
    return sorted(rated, key=lambda item: (-item[0], item[1].path, item[1].line))
