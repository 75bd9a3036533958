"""Choose the tool calls that find the definitions a question is about, and read them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from run_specialist.providers.offline.code_block import CodeBlock
from run_specialist.providers.offline.code_words import names_in_code
from run_specialist.providers.offline.definitions import is_code, pattern
from run_specialist.providers.offline.gathered import Findings
from run_specialist.providers.offline.question import Question, Term

ToolAndArguments = tuple[str, Mapping[str, Any]]
"""A tool, and the arguments of a call."""
_MOST_NAMES = 120
_TERMS, _WORDS = 6, 4
_SHORTEST = 3
_ABOVE, _WINDOW = 2, 60
"""Number of lines that are read: before a definition, and in total."""


def is_in_code(question: Question, gathered: Findings) -> bool:
    """Return whether a question is about a behaviour, and code was found."""
    return question.is_about_behaviour and any(map(is_code, gathered.lines))


def named_definitions(terms: Sequence[Term], gathered: Findings) -> Iterator[ToolAndArguments]:
    """Yield a call that finds the definitions whose names contain a term of the question."""
    words = {word.casefold() for term in terms[:_TERMS] for word in [term.text, *names_in_code(term.text)[:_WORDS]]}
    stems = sorted({_stem(word) for word in words if word.isalnum() and len(word) >= _SHORTEST})
    suffixes = sorted({PurePosixPath(path).suffix[1:] for path in gathered.lines if is_code(path)})
    if stems:
        glob = f"*.{{{','.join(suffixes)}}}" if len(suffixes) > 1 else f"*.{suffixes[0]}"
        arguments = {"pattern": pattern(stems), "glob": glob, "ignore_case": True, "limit": _MOST_NAMES}
        yield "grep", arguments


def window(block: CodeBlock) -> range:
    """Return the lines to read around a block: from the start of its definition, if that is near."""
    near = block.start and block.line - block.start < _WINDOW - 10
    first = max(1, (block.start if near else block.line - 10) - _ABOVE)
    return range(first, first + _WINDOW)


def _stem(word: str) -> str:
    """Return the beginning that the inflections of a word share."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word
