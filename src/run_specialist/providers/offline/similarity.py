"""Match words with similar meaning: inflections, derivations, and a few common synonyms."""

import re
from functools import lru_cache

from run_specialist.tools.search.terms import parts, spellings, stem

_PHRASES = tuple(
    (re.compile(rf"(?i)\b(?:{phrase})\b"), verb)
    for phrase, verb in [
        ("le(?:ft|ave|aving) out", "excluded"),
        ("t(?:aken?|ook) out|(?:get|got|getting) rid of|thrown? (?:out|away)", "removed"),
        ("(?:turn|switch)(?:ed)? off", "disabled"),
        ("(?:turn|switch)(?:ed)? on", "enabled"),
        ("g[ai]ven? up(?: on)?", "abandoned"),
        ("look(?:ed)? into", "investigated"),
        ("set up", "setup"),
        ("put off", "postponed"),
        ("made up of", "consisting"),
        ("go(?:es|ne)? wrong|went wrong", "failed"),
    ]
)
_NUMBERS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6"}
_NUMBERS |= {"seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"}
_SUFFIXES = (
    *("ization", "isation", "ication", "ability", "ation", "ition", "ement", "ments", "ment", "ness", "able", "ible"),
    *("tion", "sion", "ence", "ance", "ious", "ive", "ity", "ion", "ize", "ise", "ier", "est", "ors", "ers", "or"),
    *("er", "al", "ic", "ed", "ly", "at", "if"),
)
_SHORTEST = 4
_SYNONYMS = """
speed performance slow slowdown slower sluggish latency throughput fast faster speedup quick
big large size huge long length max maximum peak
remove revert drop delete undo rollback uninstall discard eliminate
decide choose settle pick select adopt agree decision choice
bug defect error issue problem failure fault broken crash wrong mistake
fix repair resolve correct patch solve
cause reason why because due root
limit maximum max cap threshold bound ceiling
change modify alter edit adapt adjust
make create build write generate produce
begin start first initial original
stop end halt terminate kill abort
use apply employ utilize
workaround bypass circumvent
upgrade update bump
replace swap substitute supersede
missing absent lack
check verify validate test
save store persist serialize
plan roadmap schedule
recommend suggest advise propose
difference differ versus compare comparison
merge combine join
person people user owner author team
name call refer alias term title
fail failure failed break
skip ignore exclude omit
exceed longer above over beyond
fraction share percent percentage proportion ratio
automatic auto automatically
costly expensive cost slow
raise increase bump grow
postpone defer delay
"""


@lru_cache(maxsize=65_536)
def root(word: str) -> str:
    """Return the root of a word, shared by its inflections and derivations such as `predicting` and `prediction`."""
    reduced = _NUMBERS.get(word.casefold()) or stem(word)
    for suffix in _SUFFIXES:
        if reduced.endswith(suffix) and len(reduced) - len(suffix) >= _SHORTEST:
            return reduced.removesuffix(suffix)
    return reduced


@lru_cache(maxsize=1)
def _groups() -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for line in _SYNONYMS.split("\n"):
        words = tuple(line.split())
        for word in words:
            groups[root(word)] = groups.get(root(word), ()) + words
    return groups


def synonyms(word: str) -> list[str]:
    """Return words with a similar meaning, without the word itself."""
    own = root(word)
    return [other for other in dict.fromkeys(_groups().get(own, ())) if root(other) != own]


def plain(text: str) -> str:
    """Replace phrasal verbs by single verbs, which a search can find."""
    for phrase, verb in _PHRASES:
        text = phrase.sub(verb, text)
    return text


@lru_cache(maxsize=8192)
def roots(text: str) -> frozenset[str]:
    """Return the roots of all words in a text, with all spellings of identifiers."""
    found: set[str] = set()
    for token in re.findall(r"[^\s()\[\]{}\"`,;]+", text):
        pieces = parts(token)
        found.update(map(root, pieces))
        if len(pieces) > 1 or not token.islower():
            found.update(root(part) for spelling in spellings(token) for part in parts(spelling))
    return frozenset(found)


def literal(text: str) -> str:
    """Return a regular expression that matches a text literally."""
    return re.escape(text[:80]).replace(r"\ ", " ")
