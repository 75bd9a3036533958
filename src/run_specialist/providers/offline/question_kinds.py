"""Kinds of questions, and patterns of their answers."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class QuestionKind:
    """Patterns for one kind of question and its answers."""

    asked: re.Pattern[str]
    """Matches questions of this kind."""
    shown: re.Pattern[str]
    """Matches answers."""
    above: re.Pattern[str] | None = None
    """Matches the heading or label of answers."""
    without: float = 0.95
    """Factor on the score of a line without a match."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_MEASURE = (
    r"(?:line|version|number|size|limit|threshold|rate|ratio|percentage|fraction|proportion|share|count|value|port"
    r"|timeout|budget|score|cost|price|issue)\b"
)
_AMOUNT = QuestionKind(
    asked=_any(
        r"\bhow (?:many|much|large|big|long|often|fast|slow|high|low|old|far|small|deep|wide|accurate|tall)\b",
        r"\b(?:what|which)\b(?:'s| is| was| are| were)?(?: the)?(?: \w+){0,3} " + _MEASURE,
        r"\btolerance\b",
        r"\bnumber of\b",
        r"\bpercent",
    ),
    shown=re.compile(r"(?<![\w#.-])(?!\d{4}-\d\d)\d"),
    without=0.8,
)
_REASON = QuestionKind(
    asked=_any(
        r"\bwhy\b", r"\breasons?\b", r"\bcauses?\b", r"\bhow come\b", r"\bexplain", r"\bpoint of\b", r"\bdownside"
    ),
    shown=_any(
        *(
            r"\bbecause\b",
            r"\bdue to\b",
            r"\bsince\b",
            r"\bso that\b",
            r"\bcaus",
            r"\breason",
            r"\brationale",
            r"\bthus\b",
        ),
        *(r"\btherefore", r"\bto (?:avoid|prevent|ensure|keep)\b", r"\bcan(?:not|'t)\b", r"\bin order to\b", r"\bso\b"),
        *(r"\bwould\b", r"\binstead of\b", r"\bresult", r"\b(?:does|do|is)(?:n't| not)\b", "→"),
    ),
    above=_any(r"\bwhy\b", r"\bcauses?\b", r"\breason", r"\brationale", r"\bjustif", r"\bbecause\b", r"\bmotivation"),
)
_TIME = QuestionKind(
    asked=_any(
        r"(?:^|[,;?.] |\band )when (?:was|were|did|is|are|will|do|does|should|can)\b",
        r"\bwhat (?:date|day|time|year|month)\b",
        r"\b(?:how long ago|since when|deadline)\b",
    ),
    shown=_any(
        r"\b20\d\d\b",
        r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\b",
        r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
        r"\b\d{1,2}:\d\d\b",
        r"\b(?:days?|weeks?|months?|quarter)\b",
    ),
    without=0.8,
)
_DECISION = QuestionKind(
    asked=_any(
        *(
            r"\bdecid",
            r"\bdecision",
            r"\bchoose",
            r"\bchose",
            r"\bsettle",
            r"\bagree",
            r"\bpick(?:ed)?\b",
            r"\bpolicy\b",
        ),
        *(r"\bwhich\b.*\b(?:use|version|choice)\b", r"\binstead\b", r"\bprefer"),
    ),
    shown=_any(
        *(
            r"\bdecided",
            r"\bdecision",
            r"\bchose",
            r"\bsettled",
            r"\bagreed",
            r"\bpicked",
            r"\bselected",
            r"\bapproved",
        ),
        *(r"\binstead of\b", r"\brather than\b", r"\brejected", r"\bwe (?:will|use|went)\b", r"\(not ", r"\brecommend"),
    ),
    above=_any(r"\bdeci", r"\bcho(?:ice|sen)", r"\brecommend"),
)
_STATE = QuestionKind(
    asked=_any(
        r"\bhow (?:did|does|is|are|was|were|well|after|before|now)\b",
        *(r"\bstatus\b", r"\bresults?\b", r"\bstand\b", r"\bcompare"),
    ),
    shown=_any(r"\d\s?[%x×]", r"\d/\d", r"\b\d+ \w*\s?(?:pass|fail|test)", r"\b(?:pass|fail|complete|done|match)"),
)
_NAMED = QuestionKind(
    asked=_any(r"\b(?:which|what) (?:name|word|term|label|alias|title)\b", r"\bcalled\b"),
    shown=re.compile(r"[\"“][^\"”]{1,40}[\"”]"),
)
_WAY = QuestionKind(
    asked=_any(r"\bhow (?:do|can|to|should)\b", r"\bwhat can (?:i|we) do\b", r"\bworkaround"),
    shown=_any(r"`[^`]+`", r"\b(?:run|use|set|needed|should|must)\b", r"\bworkaround", r"\bfix", r"\$ \w"),
)
QUESTION_KINDS = (_AMOUNT, _REASON, _TIME, _DECISION, _STATE, _NAMED, _WAY)
