"""A scripted model with one strategy: search for the claim, read around the best hit, answer with the fitting lines.

It judges nothing, so the share of right verdicts measures no model. It shows that an eval runs whole.
"""

import re
from collections.abc import Mapping
from typing import Any

from tests.wire.simulator.replies import Reply, respond, says, tool_use
from tests.wire.simulator.script import Recorded

HIT = re.compile(r"^(\S+?):(\d+): (.*\w.*)$", re.MULTILINE)
"""A line of a search, as the tools show it: path, number, text."""
_RARE = re.compile(r"\w{5,}")
_MOST_QUOTES = 2


def searches_reads_answers(request: Recorded) -> Reply:
    """Search in the first turn, read in the second, answer in the third, or before if `respond` is demanded."""
    claim = _claim(request)
    hits = [hit.groups() for text in _results(request) for hit in HIT.finditer(text)]
    turn = 1 + sum(message["role"] == "assistant" for message in request.messages)
    if turn == 1 and request.tool_choice is None:
        return says(tool_use("search", {"query": claim}))
    if turn == 2 and hits and request.tool_choice is None:
        best = max(hits, key=lambda hit: _fit(hit[2], claim))
        return says(tool_use("read", {"path": best[0], "offset": max(1, int(best[1]) - 3), "limit": 8}))
    return says(respond(**_answer(claim, hits)))


def _answer(claim: str, hits: list[tuple[str, ...]]) -> Mapping[str, Any]:
    """Return the arguments of `respond`: the lines with half of the claim's longer words, or a gap."""
    ranked = sorted(hits, key=lambda hit: -_fit(hit[2], claim))
    fitting = [hit for hit in ranked if 2 * _fit(hit[2], claim) >= len(_words(claim))][:_MOST_QUOTES]
    if not fitting:
        return {"answer": f"1 claim: 1 not found\n1. not found - {claim}", "gaps": [claim]}
    quotes = [{"source": f"{path}:{line}", "quote": text.strip()} for path, line, text in fitting]
    return {"answer": f"1 claim: 1 borne out\n1. borne out - {claim}", "evidence": quotes}


def _claim(request: Recorded) -> str:
    first = request.messages[0]["content"]
    text = first if isinstance(first, str) else "\n".join(block.get("text", "") for block in first)
    return text.partition("Check this sentence: ")[2].splitlines()[0]


def _results(request: Recorded) -> list[str]:
    """Return the texts of all tool results of the conversation."""
    blocks = [
        block
        for message in request.messages
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    return [_text(block["content"]) for block in blocks]


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _RARE.findall(text)}


def _fit(line: str, claim: str) -> int:
    """Return how many longer words of the claim a line contains."""
    return len(_words(claim) & _words(line))
