"""Rank blocks of code by how well they answer a question."""

import re

from run_specialist.providers.offline.code_block import CodeBlock
from run_specialist.providers.offline.question import Term, is_in
from run_specialist.providers.offline.quotable import Quotable

NAMED = 0.8
"""Bonus for a block whose definitions and path contain all terms of the question."""
_PROSE, _OLD = 0.55, 0.6
"""Factors for questions about behaviour if there is code: for prose, and additionally for changelogs."""
_CODE_ASIDE, _COMMENT_ASIDE = 0.6, 1.6
"""Factors for other questions: for statements, and for comments."""
_CHANGES = re.compile(r"(?i)(?:^|[/_-])(?:change(?:s|log)?|release[_-]?notes|releasenotes|history|news)(?:[/._-]|$)")
_NAME, _TEXT, _OUTER, _DOC, _TWICE = 0.9, 0.85, 0.7, 0.6, 0.1
"""Weight of a term that is in the name of the innermost definition; in the block; in the names around it or its path;
in its comments; bonus if it is both in the name and in the block."""
_BEGINS, _KIN = 0.7, 0.5
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
        known = block.known[term.text] = _confidence(block, term)
    return known


def _confidence(block: CodeBlock, term: Term) -> float:
    best = 0.0
    for weight, words in (
        (_NAME, block.name_words),
        (_TEXT, block.words),
        (_OUTER, block.outer_words),
        (_DOC, block.doc_words),
    ):
        if weight <= best:
            break
        if is_in(term, words.roots):
            best = weight + (_TWICE if weight == _NAME and is_in(term, block.roots) else 0.0)
        elif weight * _BEGINS > best and term.beginning and f" {term.beginning}" in words.joined:
            best = weight * _BEGINS
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
