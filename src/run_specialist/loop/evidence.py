"""Check quotes against the tool results of a run, and build an answer from the results when the model gave none."""

import json
import re
from collections.abc import Iterable, Sequence

from run_specialist.loop.executed import CallRecord
from run_specialist.record.messages import ToolCall
from run_specialist.record.outcome import Evidence

SALVAGED_RESULT = 600
"""Maximum length of one result in a salvaged answer [characters]."""
SALVAGED_TOTAL = 6_000
"""Maximum length of all results in a salvaged answer [characters]."""
_SALVAGED = "[No finished answer: "
LABEL_LENGTH = 200
"""Maximum length of the line that shows a call [characters]."""
GATHERED_QUOTE = 400
"""Maximum length of the quote taken from one result when there is no answer [characters]."""

_NOTICE = re.compile(r"^\[[^\] \n]* .*\]$", re.MULTILINE)
_GAP = "\ud800"
"""Replaces a notice, so that no quote matches across it; a lone surrogate, which no valid text contains."""
_LINE_PREFIX = re.compile(r"^(?:[^\n:]+:\d+[:-] ?|[ \t]*\d+\t)", re.MULTILINE)


def check(
    claims: Iterable[tuple[str, str]], executed: Sequence[CallRecord], proven: Iterable[str] = ()
) -> tuple[Evidence, ...]:
    """Search the results of successful calls for each quote, ignoring differences in white space.

    claims: pairs of source and quote, as the model gave them.
    proven: further texts known to be in a source, such as the verified quotes of children.
    """
    claims = tuple(claims)
    # Folding all results takes as long as a request.
    if not claims:
        return ()
    texts = [*(call.text for call in executed if not call.is_error), *proven]
    results = [form for text in texts for form in forms(text)]
    return tuple(Evidence(source, quote, verified=is_in(results, quote)) for source, quote in claims)


def forms(text: str) -> tuple[str, str]:
    """Return the forms of a result that are searched for a quote: with and without line prefixes."""
    # Without the line prefixes that tools add, a quote over several lines is found. Notices of tools, in brackets,
    # may repeat the model's arguments and are not evidence.
    without_notices = _NOTICE.sub(_GAP, text)
    return _fold(without_notices), _fold(_LINE_PREFIX.sub("", without_notices))


def is_in(results: Iterable[str], quote: str) -> bool:
    """Return True if one of the results contains the quote.

    results: the `forms` of each result.
    """
    folded = _fold(_NOTICE.sub(_GAP, quote))
    return bool(folded.strip(f"{_GAP} ")) and any(folded in result for result in results)


def gathered(executed: Sequence[CallRecord]) -> tuple[Evidence, ...]:
    """Return the beginning of each result as evidence, for a run without an answer."""
    return tuple(Evidence(label(call.call), call.text[:GATHERED_QUOTE], verified=True) for call in _useful(executed))


def salvage(why: str, text: str, executed: Sequence[CallRecord]) -> str:
    """Build an answer from the model's last text and the results; empty if there is neither.

    why: the reason for the missing answer, in one clause.
    """
    parts, characters_left = [], SALVAGED_TOTAL
    # Newest first: if not all results fit, the newest are the most likely to bear on the answer.
    for call in reversed(_useful(executed)):
        part = f"{label(call.call)}\n{_excerpt(call.text, SALVAGED_RESULT)}"
        if len(part) > characters_left:
            break
        parts.append(part)
        characters_left -= len(part)
    if not text and not parts:
        return ""
    head = f"{_SALVAGED}{why}. This is what was gathered until then.]"
    return "\n\n".join(part for part in (head, text, *parts) if part)


def is_salvaged(answer: str) -> bool:
    """Return whether an answer was built by `salvage`; it contains unchanged results, which are not Markdown."""
    return answer.startswith(_SALVAGED)


def _useful(executed: Sequence[CallRecord]) -> list[CallRecord]:
    return [call for call in executed if not call.is_error and call.text.strip()]


def label(call: ToolCall) -> str:
    """Return the call on one line, as the source of its result."""
    return _excerpt(f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}", LABEL_LENGTH)


def _excerpt(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 2] + " …"


def _fold(text: str) -> str:
    return " ".join(text.split())
