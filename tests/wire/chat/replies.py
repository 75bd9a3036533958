"""The replies of a scripted chat model: one completion, complete or as the chunks of a stream."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PIECES = 3
"""Fragments that a text or a call's arguments are split into when they are streamed."""


@dataclass(frozen=True)
class ChatReply:
    """Hold one completion."""

    message: Mapping[str, Any]
    """The message as sent; a call whose id is None gets one when it is issued."""
    finish_reason: str | None = ""
    """Empty means `tool_calls` when a tool is called, else `stop`; None is sent as null."""
    usage: Mapping[str, Any] | None = None
    """In place of what was counted."""
    deltas: Sequence[Mapping[str, Any]] | None = None
    """What is streamed, in place of the fragments of the message."""

    @property
    def reason(self) -> str | None:
        """Return the reason to finish as sent."""
        if self.finish_reason == "":
            return "tool_calls" if self.message.get("tool_calls") else "stop"
        return self.finish_reason


def tool_call(name: str, arguments: Any = None, call_id: str | None = None, **fields: Any) -> dict[str, Any]:
    """Build a call; a string is sent as the arguments' JSON just as it is."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}, **fields}


def says(text: Any = None, *wanted: Mapping[str, Any], finish_reason: str | None = "", **fields: Any) -> ChatReply:
    """Build a reply of a text and calls; `fields` are further ones of the message."""
    message = {"role": "assistant", "content": text, "refusal": None, **fields}
    return ChatReply({**message, **({"tool_calls": list(wanted)} if wanted else {})}, finish_reason)


def calls(name: str, *arguments: Mapping[str, Any]) -> ChatReply:
    """Build a reply that calls one tool once for each of `arguments`."""
    return says(None, *(tool_call(name, given) for given in arguments))


def answers(answer: str, **fields: Any) -> ChatReply:
    """Build a reply that calls `respond`."""
    return says(None, tool_call("respond", {"answer": answer, **fields}))


def deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a message in fragments, as the API streams it."""
    yield {"role": "assistant", "content": "" if message.get("content") is None else None}
    for key, value in message.items():
        if key not in {"role", "tool_calls"} and value is not None:
            yield from ({key: piece} for piece in (_pieces(value) if isinstance(value, str) else [value]))
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        head = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [head]}
        for piece in _pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(words: str) -> list[str]:
    step = max(1, -(-len(words) // PIECES))
    return [words[at : at + step] for at in range(0, len(words), step)]
