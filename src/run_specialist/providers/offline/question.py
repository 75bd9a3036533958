"""Analyze a question: its terms, its parts, and the kind of answer it asks for."""

import re
from dataclasses import dataclass
from functools import cached_property

from run_specialist.providers.offline.code_words import roots_in_code
from run_specialist.providers.offline.question_kinds import QUESTION_KINDS, QuestionKind
from run_specialist.providers.offline.similarity import plain, root, roots, synonyms
from run_specialist.tools.search.terms import content_terms, parts, spellings

_PART_BREAK = re.compile(
    r"(?i)[?!.;]\s+|,?\s+(?:and|but|or)\s+(?=(?:also\s+)?(?:how|why|what|which|when|where|who|whose|whom|if so|is|are|"
    r"was|were|does|do|did|on which|in which|by how|from which|since when)\b)"
)
_NAME_SHAPE = re.compile(r"[A-Z].*[A-Z]|\d|[_/#@+]|[a-z][A-Z]|\w\.\w|::")
_CALENDAR = re.compile(
    r"(?i)(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|may|june|july|august|september"
    r"|october|november|december"
)
_ASKED_ABOUT_AMOUNT = re.compile(
    r"(?i)\bhow (many|much|large|big|long|often|fast|slow|high|low|old|far|small|deep|wide|tall)\b(?! \w+er\b)"
)
_BEHAVIOUR = re.compile(r"(?i)\b(?:how|where|when|what happens|what does|which|does|do|is|are|can)\b")
_NOT_BEHAVIOUR = re.compile(
    r"(?i)\b(?:why|who|whom|whose|decisions?|rationale|reasons?|agreed|policy)\b|\b(?:did|do|have|had|are|were) we\b"
    r"|\bwe (?:use|chose|decided?|settled?|picked)\b"
)
_QUOTED = re.compile(r"[\"'`“‘«]([^\"'`”’»]{2,60})[\"'`”’»]")


_ASKING = frozenset(
    """
    actually although anyway bad best chose choose chosen compare compared conclude concluded decide decided decision
    describe different explain good hardly happen happened happens hold holds instead kind kinds list main meant moment
    overview point reason reasons really right settle settled show sort sorts stand stands stood summarise summarize
    summary think told whole
    """.split()  # noqa: SIM905 - as in STOP_WORDS
)
"""Words that describe the desired answer, not its subject."""
_LONGEST = 4000
_MOST_TERMS = 24
_LONG_ENOUGH = 4


@dataclass(frozen=True)
class Term:
    """One word or identifier of the question."""

    text: str
    """The term as spelled in the question."""
    forms: tuple[frozenset[str], ...]
    """Word roots of each spelling; a text contains the term if it contains all roots of one spelling."""
    synonyms: tuple[str, ...]
    """Words with a similar meaning."""
    name: bool
    """True if the term looks like a name or an identifier."""

    @cached_property
    def kin(self) -> frozenset[str]:
        """Roots of the synonyms."""
        return frozenset(map(root, self.synonyms))

    @cached_property
    def kin_in_code(self) -> frozenset[str]:
        """Roots of the words that may name in code what the term names."""
        return roots_in_code(self.text)

    @cached_property
    def beginning(self) -> str | None:
        """Prefix of longer words that contain the term; None for short or compound terms."""
        (first, *more), *_ = map(sorted, self.forms)
        return first if not more and len(first) >= _LONG_ENOUGH else None


def is_in(term: Term, word_roots: frozenset[str]) -> bool:
    """Return whether a set of word roots contains one of a term's spellings."""
    for form in term.forms:  # noqa: SIM110 - the innermost loop of a run; any() takes twice as long
        if form <= word_roots:
            return True
    return False


@dataclass(frozen=True)
class Question:
    """A question and its analysis."""

    text: str

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Terms for the subject of the question, in order."""
        text = plain(_ASKED_ABOUT_AMOUNT.sub(" ", self.text))
        words = content_terms(text[:_LONGEST])
        subject = [word for word in words if word.casefold() not in _ASKING]
        found = [_term(word, self.text) for word in subject or words]
        by_roots = {term.forms[0]: term for term in reversed(found)}
        return tuple(sorted(by_roots.values(), key=found.index))[:_MOST_TERMS]

    @cached_property
    def acronyms(self) -> tuple[tuple[str, frozenset[Term]], ...]:
        """Possible acronyms of adjacent words, with the terms that they abbreviate."""
        runs = (run for size in (2, 3) for run in zip(*(self.terms[start:] for start in range(size)), strict=False))
        return tuple(
            ("".join(term.text[0] for term in run).upper(), frozenset(run))
            for run in runs
            if all(term.text.isalpha() for term in run) and " ".join(term.text for term in run) in self.text
        )

    @cached_property
    def parts(self) -> tuple["Question", ...]:
        """The separate questions in the text; the question itself if there is only one."""
        pieces = [piece.strip(" ,.;:?!") for piece in _PART_BREAK.split(self.text[:_LONGEST])]
        pieces = [piece for piece in pieces if len(piece.split()) > 1]
        return tuple(map(Question, pieces)) if len(pieces) > 1 else (self,)

    @cached_property
    def roots(self) -> frozenset[str]:
        """Roots of all words."""
        return roots(self.text)

    @cached_property
    def kinds(self) -> tuple[QuestionKind, ...]:
        """The kinds of questions that match this one."""
        return tuple(kind for kind in QUESTION_KINDS if kind.asked.search(self.text))

    @cached_property
    def is_about_behaviour(self) -> bool:
        """Whether code, if there is any, answers the question best: how something is done, or where."""
        return bool(_BEHAVIOUR.search(self.text)) and not _NOT_BEHAVIOUR.search(self.text)

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """Quoted phrases in the question."""
        return tuple(dict.fromkeys(_QUOTED.findall(self.text)))


def _term(word: str, text: str) -> Term:
    pieces = [piece for piece in parts(word) if len(piece) > 1] or parts(word)
    # The first word of a sentence is always capitalized.
    capital = word[:1].isupper() and re.search(rf"(?<![.?!:]\s)(?<!^)(?<!\n)\b{re.escape(word)}", text) is not None
    return Term(
        text=word,
        forms=tuple(frozenset(map(root, form)) for form in (pieces, *map(parts, spellings(word)))),
        synonyms=tuple(synonyms(pieces[0])) if len(pieces) == 1 else (),
        name=bool((capital and not _CALENDAR.fullmatch(word)) or _NAME_SHAPE.search(word)),
    )
