"""Where the quotes of an answer stand: the call whose result holds each, and the place in it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from run_specialist.loop.evidence import forms, is_in, label
from run_specialist.store.stored import StoredCall, StoredRun

_SPACE = r"(?:\s*\n(?:[^\n:]{1,300}:\d+[:-] ?|[ \t]*\d+\t)?\s*|\s+)"
"""What may stand between two words of a quote: the tools put a place before each line."""


def holders(run: StoredRun) -> list[StoredCall | None]:
    """Return the call whose result holds each piece of evidence; None for what stands nowhere."""
    evidence: Sequence[Mapping[str, Any]] = (run.outcome or {}).get("evidence") or ()
    if not evidence:
        return []
    useful = [(call, forms(call.text)) for call in run.calls if not call.is_error]
    return [_holder(one, useful) for one in evidence]


def _holder(one: Mapping[str, Any], useful: Sequence[tuple[StoredCall, tuple[str, str]]]) -> StoredCall | None:
    source, quote = str(one["source"]), str(one["quote"])
    # The beginning of a result, as it stands for a missing answer, may end within a notice and is not found as a quote.
    holding = [call for call, texts in useful if is_in(texts, quote) or (quote and call.text.startswith(quote))]
    return min(holding, key=lambda call: (not _names(call, source), call.number), default=None)


def _names(call: StoredCall, source: str) -> bool:
    """Tell whether a call has to do with a source: usually `path:line`, for a missing answer the call itself."""
    path, _, line = source.rpartition(":")
    if path and (f"{source}:" in call.text or f"{path}-{line}-" in call.text):
        return True
    return source == label(call.call) or bool({source, path or source} & _words(call))


def _words(call: StoredCall) -> set[str]:
    return {value for value in (call.call.arguments or {}).values() if isinstance(value, str)}


def parted(text: str, quotes: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """Return a text in pieces, `{"text", "quote"}`; those that are a quote carry its number.

    quotes: pairs of number and quote.
    """
    pieces: list[dict[str, Any]] = []
    done = 0
    for begin, end, number in sorted(_spans(text, quotes)):
        if begin >= done:
            pieces += [{"text": text[done:begin], "quote": None}, {"text": text[begin:end], "quote": number}]
            done = end
    return [piece for piece in (*pieces, {"text": text[done:], "quote": None}) if piece["text"]]


def _spans(text: str, quotes: Iterable[tuple[int, str]]) -> Iterable[tuple[int, int, int]]:
    for number, quote in quotes:
        words = quote.split()
        found = re.search(_SPACE.join(map(re.escape, words)), text) if words else None
        if found:
            yield found.start(), found.end(), number
