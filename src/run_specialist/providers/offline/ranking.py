"""Which lines answer a question best."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

from run_specialist.providers.offline.question import Question, Term
from run_specialist.providers.offline.units import Unit

_COMMON = 1000
"""A word in this many passages says next to nothing."""
_UNKNOWN = 30
"""How many passages a word is thought to be in before a search has told."""
_NEAR, _ABOVE, _KIN, _KIN_NEAR = 0.45, 0.5, 0.5, 0.2
_DATE = re.compile(r"\d{4}-\d\d-\d\d\S*")


@dataclass(frozen=True)
class Weights:
    """How much each term of a question says."""

    counts: Mapping[str, int]

    def of(self, term: Term) -> float:
        """Return the weight of a term: rare words and names say most."""
        count = self.counts.get(term.text.casefold(), _UNKNOWN)
        return log(1 + _COMMON / max(count, 1)) * (1.3 if term.name else 1.0)


def held(unit: Unit, term: Term) -> float:
    """Return how surely a unit is about a term, from 0 to 1."""
    if term.roots <= unit.roots:
        return 1.0
    share = _KIN if term.kin & unit.roots else 0.0
    if term.roots <= unit.heading_roots:
        return max(share, _ABOVE)
    if term.roots <= unit.context_roots | unit.roots:
        return max(share, _NEAR)
    return share or (_KIN_NEAR if term.kin & unit.context_roots else 0.0)


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
    text = _DATE.sub(" ", unit.text) if unit.text.startswith(("date", "|")) else unit.text
    for sign in question.answer_signs:
        rated *= 1.25 if sign.search(text) else 0.95
    return rated * _form(unit)


def _form(unit: Unit) -> float:
    """Rate what a unit looks like: prose says more than headings, code and scraps."""
    text = unit.text.strip()
    if unit.is_heading:
        return 0.6
    if text.endswith("?"):
        return 0.7
    if text.startswith(("```", "~~~", "<!--", "import ", "use ", "from ")):
        return 0.4
    return 0.8 if len(text) < 30 else 1.0


def best(units: Iterable[Unit], question: Question, weights: Weights) -> list[tuple[float, Unit]]:
    """Rank units by how well they answer the question or one of its parts, best first."""
    rated = [
        (max(score(unit, part, question, weights) for part in {question, *question.parts}), unit) for unit in units
    ]
    return sorted(rated, key=lambda item: (-item[0], item[1].path, item[1].line))
