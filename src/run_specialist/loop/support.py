"""Check whether the evidence of an answer bears out its sentences, by their facts; no model is asked.

Facts are what can be looked up: numbers, dates, identifiers, names of files, proper names. Of two spellings of a date
or a number, either is found.
"""

import re
from calendar import month_abbr, month_name
from collections.abc import Iterator
from functools import lru_cache

from run_specialist.record.outcome import Evidence, Support, without_links
from run_specialist.tools.search import STOP_WORDS, stem

_MARK = re.compile(r"\s*\[(\d{1,2}(?:[,; ]+\d{1,2})*)\](?!\()")
# The end of a sentence, with closing signs and the marks after it; then another one begins.
_END = re.compile(r"[.!?…][\"'”’)*_`]*(?:\s*\[[\d,; ]+\])*(?=\s+[\"'“‘(*_`\[]*[^\Wa-z]|\s*$)")
_ABBREVIATED = re.compile(r"(?i)\b(?:e\.g|i\.e|etc|vs|cf|approx|no|sec|[a-z])\.$")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
# Lines that claim nothing: blank lines, headings, quotations, rules and borders of tables.
_NO_CLAIM = re.compile(r"\s*(?:#{1,6} .*|>.*|[-|:=*_ ]*)")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|\|)\s+")

_CODE = re.compile(r"`+([^`\n]+)`+")
# Dates, paths and names of files, names with a sign, a digit or a capital inside, options, calls.
_IDENTIFIER = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|(?<![\w/.-])\.{0,2}/?[\w-]+(?:/[\w.-]*\w)+|\b[A-Za-z_][\w-]*\.[a-z]{1,5}\b|--[a-z][\w-]+"
    r"|\b\w*[A-Za-z]\w*(?:_|::)\w+|\b\w*[a-z][A-Z]\w*|\b[A-Za-z][\w-]*\d[\w.-]*\w|\b[A-Za-z]\w*(?=\(\))"
)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)*")
# A capitalized word that does not begin a sentence or a quotation, and a word of capitals.
_NAME = re.compile(r"(?<=[a-z0-9,;’'] )[A-Z][^\W\d_]+|\b[A-Z]{2,}\b")
_NUMERALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_DIGITS = {word: str(number) for number, word in enumerate(_NUMERALS, 1)} | {
    name.casefold(): str(number) for names in (month_name, month_abbr) for number, name in enumerate(names) if name
}


# An answer that must be borne out is checked when it arrives, and again for the outcome.
@lru_cache(maxsize=32)
def support_of(answer: str, evidence: tuple[Evidence, ...], question: str) -> tuple[Support, ...]:
    """Return for each sentence with facts or marks the evidence it rests on, and the facts that this lacks.

    evidence: as the marks number it; only verified pieces count. Without any there is nothing to check against.
    question: what it says need not be borne out.
    """
    texts = {number: _Text(f"{one.source}\n{one.quote}") for number, one in enumerate(evidence, 1) if one.verified}
    asked, found = _Text(question), []
    for sentence in sentences(answer) if texts else ():
        marks = [int(number) for mark in _MARK.findall(sentence) for number in re.findall(r"\d+", mark)]
        facts = [fact for fact in _facts(_MARK.sub("", sentence)) if fact not in asked]
        # A sentence without a mark rests on whatever holds its facts.
        cited = [mark for mark in dict.fromkeys(marks) if mark in texts] if marks else []
        cited = cited if marks else [number for number, text in texts.items() if any(fact in text for fact in facts)]
        missing = tuple(fact for fact in facts if not any(fact in texts[number] for number in cited))
        if marks or facts:
            found.append(Support(sentence, tuple(cited), missing))
    return tuple(found)


def sentences(answer: str) -> Iterator[str]:
    """Yield the sentences of a Markdown text as they are written, without headings, quotations and code."""
    blocks: list[list[str]] = [[]]
    is_code = False
    for line in answer.splitlines(keepends=True):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and not _NO_CLAIM.fullmatch(line.rstrip()):
            if item := _ITEM.match(line):
                blocks.append([])
            blocks[-1].append(line[item.end() :] if item else line)
            continue
        blocks.append([])
    for block in map("".join, blocks):
        start = 0
        for end in [*(found.end() for found in _END.finditer(block)), len(block)]:
            sentence = block[start:end].strip()
            if sentence and not (_ABBREVIATED.search(sentence) and end < len(block)):
                start = end
                yield sentence


def _facts(sentence: str) -> list[str]:
    """Return the distinct facts of a sentence, in order."""
    found: dict[int, str] = {}
    rest = without_links(sentence).replace("*", "")
    for kind, group in ((_CODE, 1), (_IDENTIFIER, 0), (_NUMBER, 0), (_NAME, 0)):
        for match in kind.finditer(rest):
            if kind is not _NAME or (word := match[0].casefold()) not in STOP_WORDS or word in _DIGITS:
                found[match.start()] = match[group].strip()
        # A part of a fact is none of its own.
        rest = kind.sub(lambda match: " " * len(match[0]), rest) if kind is not _NAME else rest
    return list(dict.fromkeys(found[at] for at in sorted(found)))


class _Text:
    """A text in which facts are looked up."""

    def __init__(self, text: str) -> None:
        self._folded = " ".join(text.casefold().split())
        words = re.findall(r"[^\W\d_]+", self._folded)
        self._stems = {stem(word) for word in words}
        self._numbers = {_plain(number) for number in _NUMBER.findall(text)}
        self._numbers |= {_DIGITS[word] for word in words if word in _DIGITS}

    def __contains__(self, fact: str) -> bool:
        folded = " ".join(fact.casefold().split())
        if folded in self._folded:
            # A number must not be a part of another one.
            return not _NUMBER.fullmatch(fact) or _plain(fact) in self._numbers
        numbers, words = _NUMBER.findall(fact), re.findall(r"[^\W\d_]+", folded)
        return all(_plain(number) in self._numbers for number in numbers) and all(
            stem(word) in self._stems or _DIGITS.get(word) in self._numbers for word in words
        )


def _plain(number: str) -> str:
    """Return a number without separators of thousands and leading zeros."""
    return number.replace(",", "").lstrip("0") or "0"
