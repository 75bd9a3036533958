"""Recognise an answer that is a tool call written as text."""

import json
import re
from collections.abc import Collection
from typing import Any

ARGUMENTS = ("arguments", "parameters", "input")
_WRAPPED = (
    re.compile(r"```(?:\w+)?\s*\n(.*?)\n?\s*```", re.DOTALL),
    re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL),
)
_DECODER = json.JSONDecoder()


def has_leaked_call(text: str, tools: Collection[str] | None = None) -> bool:
    """Return whether the whole text is JSON of tool calls: bare, in fences, or in `<tool_call>` tags.

    A call is `{"name": TOOL, "arguments": {...}}` (or `parameters`, or `input`), `{"call": {"tool": TOOL, ...}}`, or
    the arguments of `respond`, `{"answer": ..., "evidence": [...]}`. One object of several is enough.
    tools: names that count as calls; None = all.
    """
    for pattern in _WRAPPED:
        text = pattern.sub(r"\1", text)
    return any(_is_call(value, tools) for value in _values(text.strip()))


def _values(text: str) -> list[Any]:
    """Return the JSON values that the text consists of; empty if it contains anything else."""
    values: list[Any] = []
    while text:
        try:
            value, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            return []
        values += value if isinstance(value, list) else [value]
        text = text[end:].lstrip(" \t\r\n,;")
    return values


def _is_call(value: Any, tools: Collection[str] | None) -> bool:  # noqa: ANN401 - any JSON
    if not isinstance(value, dict):
        return False
    call = value.get("call")
    if isinstance(call, dict) and "tool" in call:
        return tools is None or call["tool"] in tools
    if isinstance(value.get("name"), str) and any(isinstance(value.get(key), dict) for key in ARGUMENTS):
        return tools is None or value["name"] in tools
    return "answer" in value and isinstance(value.get("evidence"), list)
