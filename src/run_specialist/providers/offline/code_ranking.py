"""Rank blocks of code by how well they answer a question."""

from run_specialist.providers.offline.code_block import CodeBlock
from run_specialist.providers.offline.question import Term, is_in

NAMED = 0.8
"""Bonus for a block whose definitions and path contain all terms of the question."""
BESIDE_CODE = 0.55
"""Factor for prose where there is code, if the question is about a behaviour."""
_NAME, _TEXT, _OUTER, _DOC = 1.0, 0.9, 0.7, 0.6
"""Weight of a term that is in the name of the innermost definition; in the block; in the names around it or its path;
in its comments."""
_BEGINS, _KIN = 0.7, 0.5
"""Factor if only the beginning of a word, or another word for the same, is there."""


def held_in_code(block: CodeBlock, term: Term) -> float:
    """Return the confidence that a block is about a term, from 0 to 1."""
    best = 0.0
    for weight, found in (
        (_NAME, block.name_roots),
        (_TEXT, block.roots),
        (_OUTER, block.heading_roots),
        (_DOC, block.doc_roots),
    ):
        if weight <= best:
            break
        if is_in(term, found):
            best = weight
        elif weight * _BEGINS > best and (begins := term.beginning) and any(word.startswith(begins) for word in found):
            best = weight * _BEGINS
        elif weight * _KIN > best and not term.kin_in_code.isdisjoint(found):
            best = weight * _KIN
    return best
