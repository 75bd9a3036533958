"""Choose the next tool calls of the offline researcher."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from run_specialist.providers.offline.all_units import all_units
from run_specialist.providers.offline.code_block import CodeBlock
from run_specialist.providers.offline.code_calls import is_in_code, named_definitions, window
from run_specialist.providers.offline.gathered import Findings
from run_specialist.providers.offline.question import Question, Term
from run_specialist.providers.offline.quotable import Quotable
from run_specialist.providers.offline.ranking import Weights, best, best_files
from run_specialist.providers.offline.similarity import literal
from run_specialist.record.messages import ToolCall
from run_specialist.tools.base import Toolset

ENOUGH = 8
"""Number of calls after which the researcher stops, once it has read the context of the best lines."""
MOST = 16
"""Maximum number of calls."""
_AT_ONCE, _AT_ONCE_IN_CODE = 2, 3
_HOPEFUL, _SURE = 60, 5
"""Number of best lines whose context is read, before and after `ENOUGH` calls."""
_BEFORE, _WINDOW = 10, 40
_LONGEST_QUERY = 400
_FEW, _RARE = 2, 40
_TERMS, _ABSENT, _SYNONYMS, _FILES = 4, 2, 4, 6
"""Maximum numbers: terms in one query, terms absent from all files, synonyms of a term, files by name."""


@dataclass(frozen=True)
class NextCall:
    """A useful tool call."""

    tool: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The key of the resulting tool call."""
        return ToolCall("", self.tool, self.arguments).key


def next_calls(question: Question, gathered: Findings, tools: Toolset) -> list[NextCall]:
    """Return the calls of the next turn; an empty list = time to answer."""
    at_once = _AT_ONCE_IN_CODE if is_in_code(question, gathered) else _AT_ONCE
    most = min(at_once, MOST - gathered.recent) if gathered.calls else 1
    new: dict[str, NextCall] = {}
    for call in _candidates(question, gathered, tools):
        if len(new) >= most:
            break
        if call.tool in tools and call.key not in gathered.called:
            new[call.key] = call
    return list(new.values())


def _candidates(question: Question, gathered: Findings, tools: Toolset) -> Iterator[NextCall]:
    weights = Weights(gathered.counts, is_in_code(question, gathered))
    specific = sorted(question.terms, key=weights.of, reverse=True)
    yield NextCall("search", {"query": question.text[:_LONGEST_QUERY], "limit": 15})
    if "search" not in tools:
        yield from (_grep(term.text) for term in sorted(question.terms, key=_by_look)[:5])
    if weights.in_code:
        yield from (NextCall(*call) for call in named_definitions(specific, gathered))
    for part in question.parts:
        if part is not question:
            yield NextCall("search", {"query": _about(part, specific), "limit": 8})
    if len(specific) > _FEW:
        yield NextCall("search", {"query": " ".join(term.text for term in specific[:_TERMS]), "limit": 8})
    if others := [word for term in specific[:_TERMS] for word in term.synonyms[:_SYNONYMS]]:
        fixed = [term.text for term in specific[:3] if not term.synonyms]
        yield NextCall("search", {"query": " ".join([*fixed, *others]), "limit": 8})
    yield from (_grep(phrase) for phrase in question.phrases[:2])
    absent = [term for term in specific if gathered.counts.get(term.text.casefold()) == 0]
    yield from (_grep(_beginning(term.text)) for term in absent[:_ABSENT])
    rare = [term for term in specific if term.name and 0 < gathered.counts.get(term.text.casefold(), 0) <= _RARE]
    yield from (_grep(term.text) for term in rare[:1])
    if not gathered.lines:
        yield from (NextCall("glob", {"pattern": f"*{term.text}*"}) for term in specific[:2] if term.text.isalnum())
        yield from _browse(gathered)
    yield from _reads(question, gathered, weights)


def _about(part: Question, specific: list[Term]) -> str:
    """Return a query for a part of a question, with the most specific terms of the full question added."""
    subject = [term.text for term in specific[:3] if term not in part.terms]
    return " ".join([*(term.text for term in part.terms), *subject])[:_LONGEST_QUERY]


def _grep(text: str) -> NextCall:
    return NextCall("grep", {"pattern": literal(text), "ignore_case": True, "limit": 30})


def _beginning(word: str) -> str:
    """Return the stem of a word that was not found, to match its derivations."""
    return word[: max(5, len(word) - 3)] if word.isalpha() else word


def _by_look(term: Term) -> tuple[bool, int]:
    return not term.name, -len(term.text)


def _browse(gathered: Findings) -> Iterator[NextCall]:
    """Yield calls that list and read files, for runs in which no search found anything."""
    yield NextCall("glob", {"pattern": "*.md"})
    yield NextCall("ls", {"path": "."})
    yield from (NextCall("read", {"path": path, "offset": 1, "limit": 200}) for path in gathered.files[:_FILES])


def _reads(question: Question, gathered: Findings, weights: Weights) -> Iterator[NextCall]:
    """Yield calls that read the context of the best lines, best first."""
    windows = [found for completed in gathered.calls if (found := _window(completed.call))]
    seen = all_units(gathered)
    ranked = best(seen, question, weights)[: _SURE if gathered.recent >= ENOUGH else _HOPEFUL]
    # Notes tend to start with the essentials.
    begins = [] if weights.in_code else [(path, 1) for path in best_files(seen, question, weights)[:2]]
    for target, lines in [*((path, _around(line)) for path, line in begins), *map(_place, ranked)]:
        if not any(path == target and lines[0] in known for path, known in windows):
            windows.append((target, lines[1]))
            yield NextCall("read", {"path": target, "offset": lines[1].start, "limit": len(lines[1])})


def _place(unit: Quotable) -> tuple[str, tuple[int, range]]:
    return unit.path, (unit.line, window(unit)) if isinstance(unit, CodeBlock) else _around(unit.line)


def _around(line: int) -> tuple[int, range]:
    """Return a line, and the lines to read around it."""
    first = max(1, line - _BEFORE)
    return line, range(first, first + _WINDOW)


def _window(call: ToolCall) -> tuple[object, range] | None:
    """Return file and lines of a `read` call; None for other calls."""
    arguments = call.arguments or {}
    first, limit = arguments.get("offset", 1), arguments.get("limit", _WINDOW)
    if call.name != "read" or not isinstance(first, int) or not isinstance(limit, int):
        return None
    return arguments.get("path"), range(first, first + limit)
