"""What a question asks for: its words, its parts, and what kind of answer it wants."""

import re
from dataclasses import dataclass
from functools import cached_property

from run_specialist.providers.offline.words import kin, root
from run_specialist.tools.terms import content_terms, parts

_CUES: dict[str, tuple[re.Pattern[str], re.Pattern[str]]] = {
    "number": (
        re.compile(
            r"(?i)\bhow (?:many|much|large|big|long|often|fast|slow|high|low|old|far|small|deep|wide|accurate|tall)\b"
            r"|\b(?:what|which)(?:'s| is| was| are| were)?(?: the)?(?: \w+){0,3} (?:line|version|number|size|limit|"
            r"threshold|rate|ratio|percentage|share|count|value|port|timeout|budget|score|cost|price|tolerance|issue)\b"
            r"|\bnumber of\b|\bpercent"
        ),
        re.compile(r"(?<![\w#.-])[~≈<>≤≥±+-]?\$?\d[\d.,_]*(?:\s?[%×x]|e-?\d+|\s?[A-Za-z]{1,3}\b)?"),
    ),
    "reason": (
        re.compile(r"(?i)\bwhy\b|\breasons?\b|\bcauses?\b|\bhow come\b|\bexplain\b|\bpoint of\b|\bdownside\b"),
        re.compile(
            r"(?i)\bbecause\b|\bdue to\b|\bsince\b|\bso that\b|\bcaus|\breason|\brationale|\btherefore|\bto avoid\b"
            r"|\bcannot\b|\bcan't\b|\bin order to\b|\bthat is why\b|\bso\b|\bwould\b|\binstead of\b|\bresult|\bthus\b"
            r"|\bdoesn't\b|\bdon't\b|\bisn't\b|\bdoes not\b|\bto (?:prevent|ensure|keep)\b|→"
        ),
    ),
    "time": (
        re.compile(r"(?i)\bwhen\b|\bwhat (?:date|day|time|year|month)\b|\bhow long ago\b|\bsince when\b|\bdeadline\b"),
        re.compile(
            r"(?i)\b\d{4}-\d\d-\d\d\b|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\b|\bday\b"
            r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b\d{1,2}:\d\d\b|\bweeks?\b|\bquarter\b|\b20\d\d\b"
        ),
    ),
    "decision": (
        re.compile(
            r"(?i)\bdecid|\bdecision|\bchoose|\bchose|\bsettle|\bagree|\bpick(?:ed)?\b|\bpolicy\b"
            r"|\bwhich\b.*\b(?:use|version|choice)\b|\binstead\b|\bprefer"
        ),
        re.compile(
            r"(?i)\bdecided|\bdecision|\bchose|\bchosen|\bsettled|\bagreed|\bpicked|\binstead of\b|\brather than\b"
            r"|\bselected|\bapproved|\brejected|\bwe (?:will|use|went)\b|\(not \b|\brecommend"
        ),
    ),
    "how": (
        re.compile(r"(?i)\bhow (?:do|does|can|to|should|is|are|did|would)\b|\bwhat can (?:i|we) do\b|\bworkaround"),
        re.compile(r"(?i)`[^`]+`|\brun\b|\buse\b|\bset\b|\bworkaround|\bfix|\bneeded\b|\bshould\b|\bmust\b|\$ \w"),
    ),
}
_PART_BREAK = re.compile(
    r"(?i)[?!.;]\s+|,?\s+(?:and|but|or)\s+(?=(?:also\s+)?(?:how|why|what|which|when|where|who|whose|whom|if so|is|are|"
    r"was|were|does|do|did|on which|in which|by how|from which|since when)\b)"
)
_NAME_SHAPE = re.compile(r"[A-Z].*[A-Z]|\d|[_/#@+]|[a-z][A-Z]|\w\.\w|::")
_ASKED_ABOUT_AMOUNT = re.compile(
    r"(?i)\bhow (many|much|large|big|long|often|fast|slow|high|low|old|far|small|deep|wide|tall)\b(?! \w+er\b)"
)
_QUOTED = re.compile(r"[\"'`“‘«]([^\"'`”’»]{2,60})[\"'`”’»]")


@dataclass(frozen=True)
class Term:
    """One word or identifier of the question."""

    text: str
    """As the question spells it."""
    roots: frozenset[str]
    """All of them must be there for the term to be there."""
    kin: frozenset[str]
    """Any of them counts for a part."""
    name: bool
    """It looks like a name or an identifier, not like an ordinary word."""


@dataclass(frozen=True)
class Question:
    """A question, taken apart."""

    text: str

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The words that say what it is about, in their order."""
        text = _ASKED_ABOUT_AMOUNT.sub(" ", self.text)
        found = [_term(word, self.text) for word in content_terms(text[:_LONGEST])]
        by_roots = {term.roots: term for term in reversed(found) if term.roots}
        return tuple(sorted(by_roots.values(), key=found.index))[:_MOST_TERMS]

    @cached_property
    def parts(self) -> tuple["Question", ...]:
        """The questions that it consists of; itself when it is one."""
        pieces = [piece.strip(" ,.;:?!") for piece in _PART_BREAK.split(self.text[:_LONGEST])]
        pieces = [piece for piece in pieces if len(piece.split()) > 1]
        return tuple(map(Question, pieces)) if len(pieces) > 1 else (self,)

    @cached_property
    def answer_signs(self) -> tuple[re.Pattern[str], ...]:
        """What an answer to this kind of question is likely to hold."""
        return tuple(sign for asks, sign in _CUES.values() if asks.search(self.text))

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """What the question itself puts in quotes."""
        return tuple(dict.fromkeys(_QUOTED.findall(self.text)))


_LONGEST = 4000
_MOST_TERMS = 24


def _term(word: str, text: str) -> Term:
    pieces = [piece for piece in parts(word) if len(piece) > 1] or parts(word)
    # The first word of a sentence is capital anyway.
    capital = word[:1].isupper() and re.search(rf"(?<![.?!:]\s)(?<!^)(?<!\n)\b{re.escape(word)}", text) is not None
    return Term(
        text=word,
        roots=frozenset(map(root, pieces)),
        kin=frozenset().union(*map(kin, pieces)) if len(pieces) == 1 else frozenset(),
        name=bool(capital or _NAME_SHAPE.search(word)),
    )
