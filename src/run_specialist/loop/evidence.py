"""What was gathered: quotes are checked against it, and an answer is made of it when none came."""

import json
import re
from collections.abc import Iterable, Sequence

from run_specialist.loop.executed import CallRecord
from run_specialist.record.messages import ToolCall
from run_specialist.record.outcome import Evidence

SALVAGED_RESULT = 600
"""The most of one result that a salvaged answer shows [characters]."""
SALVAGED_TOTAL = 6_000
"""The most that a salvaged answer shows of all results [characters]."""
LABEL = 200
"""The most that the call itself may take there [characters]."""
GATHERED_QUOTE = 400
"""The most of one result that stands as evidence when there is no answer [characters]."""

_NOTICE = re.compile(r"^\[[^\] \n]* .*\]$", re.MULTILINE)
_GAP = "\ud800"
"""Stands where a notice was, so that no quote runs across it; half of a character, which no text holds."""
_LINE_PREFIX = re.compile(r"^(?:[^\n:]+:\d+[:-] ?|[ \t]*\d+\t)", re.MULTILINE)


def check(
    claims: Iterable[tuple[str, str]], executed: Sequence[CallRecord], proven: Iterable[str] = ()
) -> tuple[Evidence, ...]:
    """Look each quote up in the run's results, white space folded.

    claims: pairs of source and quote, as the model gave them.
    proven: what is known to stand in a source, beside the results.
    """
    claims = tuple(claims)
    # To fold all results takes as long as a request.
    if not claims:
        return ()
    texts = [*(one.text for one in executed if not one.is_error), *proven]
    results = [form for text in texts for form in forms(text)]
    return tuple(Evidence(source, quote, verified=is_in(results, quote)) for source, quote in claims)


def forms(text: str) -> tuple[str, str]:
    """Return a result in the forms that a quote is looked up in."""
    # A quote over several lines is found once the tools' own line prefixes are out of the way. What the tools say
    # themselves, in brackets or as an error, may repeat the model's own words and proves nothing.
    said = _NOTICE.sub(_GAP, text)
    return _fold(said), _fold(_LINE_PREFIX.sub("", said))


def is_in(results: Iterable[str], quote: str) -> bool:
    """Say whether a quote stands in one of some results.

    results: in their `forms`.
    """
    folded = _fold(_NOTICE.sub(_GAP, quote))
    return bool(folded.strip(f"{_GAP} ")) and any(folded in result for result in results)


def gathered(executed: Sequence[CallRecord]) -> tuple[Evidence, ...]:
    """Return the beginning of each result as evidence, for a run without an answer."""
    return tuple(Evidence(label(one.call), one.text[:GATHERED_QUOTE], verified=True) for one in _useful(executed))


def salvage(why: str, text: str, executed: Sequence[CallRecord]) -> str:
    """Build an answer from the last text and the results; empty when there is neither.

    why: one clause on what came in between.
    """
    parts, room = [], SALVAGED_TOTAL
    # The newest results come first: they are nearest to the answer, should the room run out.
    for one in reversed(_useful(executed)):
        part = f"{label(one.call)}\n{_excerpt(one.text, SALVAGED_RESULT)}"
        if len(part) > room:
            break
        parts.append(part)
        room -= len(part)
    if not text and not parts:
        return ""
    head = f"[No finished answer: {why}. This is what was gathered until then.]"
    return "\n\n".join(part for part in (head, text, *parts) if part)


def _useful(executed: Sequence[CallRecord]) -> list[CallRecord]:
    return [one for one in executed if not one.is_error and one.text.strip()]


def label(call: ToolCall) -> str:
    """Return the call on one line, as it stands for the source of what it returned."""
    return _excerpt(f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}", LABEL)


def _excerpt(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 2] + " …"


def _fold(text: str) -> str:
    return " ".join(text.split())
