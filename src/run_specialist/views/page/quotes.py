"""Locate the quotes of an answer: the call whose result contains each quote, and the position in the result."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from run_specialist.loop.evidence import forms, is_in, label
from run_specialist.store.stored import StoredCall, StoredRun

_SPACE = r"(?:\s*\n(?:[^\n:]{1,300}:\d+[:-] ?|[ \t]*\d+\t)?\s*|\s+)"
"""Separators between two words of a quote, including the location that tools print before each line."""


def holders(run: StoredRun) -> list[StoredCall | None]:
    """Return, for each piece of evidence, the call whose result contains it; None if no result does."""
    evidence: Sequence[Mapping[str, Any]] = (run.outcome or {}).get("evidence") or ()
    if not evidence:
        return []
    candidates = [(call, forms(call.text)) for call in run.calls if not call.is_error]
    return [_holder(one, candidates) for one in evidence]


def _holder(one: Mapping[str, Any], candidates: Sequence[tuple[StoredCall, tuple[str, str]]]) -> StoredCall | None:
    source, quote = str(one["source"]), str(one["quote"])
    # A salvaged answer quotes the start of a result, which may end inside a notice and then does not count as a quote.
    holding = [call for call, texts in candidates if is_in(texts, quote) or (quote and call.text.startswith(quote))]
    return min(holding, key=lambda call: (not _matches_source(call, source), call.number), default=None)


def _matches_source(call: StoredCall, source: str) -> bool:
    """Return whether a call concerns a source: usually `path:line`; in a salvaged answer, the call itself."""
    path, _, line = source.rpartition(":")
    if path and (f"{source}:" in call.text or f"{path}-{line}-" in call.text):
        return True
    return source == label(call.call) or bool({source, path or source} & _text_arguments(call))


def _text_arguments(call: StoredCall) -> set[str]:
    return {value for value in (call.call.arguments or {}).values() if isinstance(value, str)}


def parted(text: str, quotes: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """Split a text into pieces `{"text", "quote"}`, where `quote` is the number of a quote, or None.

    quotes: pairs of number and quote.
    """
    pieces: list[dict[str, Any]] = []
    position = 0
    for begin, end, number in sorted(_spans(text, quotes)):
        if begin >= position:
            pieces += [{"text": text[position:begin], "quote": None}, {"text": text[begin:end], "quote": number}]
            position = end
    return [piece for piece in (*pieces, {"text": text[position:], "quote": None}) if piece["text"]]


def _spans(text: str, quotes: Iterable[tuple[int, str]]) -> Iterable[tuple[int, int, int]]:
    for number, quote in quotes:
        words = quote.split()
        found = re.search(_SPACE.join(map(re.escape, words)), text) if words else None
        if found:
            yield found.start(), found.end(), number
