"""Find tool calls that a model wrote as text, and turn its reply into one that makes these calls.

Servers without a matching chat template return such calls as the text of a finished reply, which would end the run.
Only a text that consists of nothing else counts:

    {"name": "search", "arguments": {"query": "x"}}     one or more objects; also `parameters` or `input`
    ```json ... ```                                     the same in one code fence
    <tool_call>{...}</tool_call>                        the same, each object in its own tags
    {"answer": "...", "evidence": [...]}                the input of `respond`, in any of these forms
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from run_specialist.record.blocks import Block, spoken, text_of
from run_specialist.record.messages import Reply, Stop
from run_specialist.tools.respond import NAME as RESPOND

CALLS_AS_TEXT = (
    "the endpoint sends tool calls as text; they were read as calls, but `tool_calls: json` is more reliable here"
)
MOST_NESTED = 50
"""Maximum nesting of a call; deeper values stay text, because they could not be encoded again everywhere."""

_ARGUMENTS = ({"name", "arguments"}, {"name", "parameters"}, {"name", "input"})
_ANSWER = {"answer", "evidence", "gaps"}
_FENCE_OPENS = re.compile(r"```\w*[ \t]*\r?\n\s*")
_FENCE = "```"
_TAG_OPENS = re.compile(r"<tool_call>\s*")
_TAG_CLOSES = re.compile(r"\s*</tool_call>\s*")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class LeakedCall:
    """A tool call found in the text of a reply."""

    name: str
    arguments: Mapping[str, Any]
    is_named: bool = True
    """False for the bare input of `respond`, which a model may also write when text is requested."""


def leaked_calls(reply: Reply, tools: Collection[str], *, bare_answer: bool = True) -> list[LeakedCall]:
    """Return the calls that the text of a reply consists of; empty for any other text.

    tools: the names of all tools that the model may call.
    bare_answer: whether bare input of `respond` counts as a call; False if it is read in another way.
    """
    if reply.stop is not Stop.ANSWERED or not reply.is_stop_known or reply.calls:
        return []
    try:
        found = list(_objects(reply.text))
    except (ValueError, RecursionError):
        return []
    calls = [_call(value, tools) for value in found]
    if len(found) == 1 and bare_answer and _is_answer(found[0]) and RESPOND in tools:
        calls = [LeakedCall(RESPOND, found[0], is_named=False)]
    named = [call for call in calls if call]
    return named if len(named) == len(calls) and not any(map(_is_too_deep, found)) else []


def with_calls(reply: Reply, calls: Collection[LeakedCall], ids: Collection[str]) -> Reply:
    """Return a reply with these calls instead of their text; thinking is kept, in blocks of any kind.

    ids: one for each call.
    """
    text = text_of(reply.content)
    thought = text[: len(text) - len(spoken(text))]
    blocks: list[Block] = [block for block in reply.content if block.get("type") != "text"]
    blocks += [{"type": "text", "text": thought}] if thought.strip() else []
    blocks += [
        {"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments}
        for call, call_id in zip(calls, ids, strict=True)
    ]
    return replace(reply, stop=Stop.WANTS_TOOLS, content=tuple(blocks))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that a text consists of.

    Raises ValueError for other or incomplete text, RecursionError for too deep nesting.
    """
    opens, closes, end = _SPACE, _SPACE, len(text)
    if text.startswith("<"):
        opens, closes = _TAG_OPENS, _TAG_CLOSES
    position = 0
    if fence := _FENCE_OPENS.match(text):
        if not text.endswith(_FENCE):
            raise ValueError("the fence is not closed")
        position, end = fence.end(), end - len(_FENCE)
    while position < end:
        begin = opens.match(text, position)
        if begin is None or text[begin.end() : begin.end() + 1] != "{":
            raise ValueError("no JSON object")
        value, position = _JSON.raw_decode(text, begin.end())
        finish = closes.match(text, position)
        if finish is None:
            raise ValueError("the tag is not closed")
        position = finish.end()
        yield value


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("JSON has no such number")
    return value


_JSON = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
"""A decoder that rejects numbers that JSON cannot represent."""


def _call(value: Mapping[str, Any], tools: Collection[str]) -> LeakedCall | None:
    name = value.get("name")
    if value.keys() not in _ARGUMENTS or not isinstance(name, str) or name not in tools:
        return None
    (arguments,) = (item for key, item in value.items() if key != "name")
    return LeakedCall(name, arguments) if isinstance(arguments, dict) else None


def _is_answer(value: Mapping[str, Any]) -> bool:
    return "answer" in value and value.keys() <= _ANSWER


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MOST_NESTED):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True
