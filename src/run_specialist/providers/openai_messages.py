"""From the transcript's blocks to the messages of the chat completions API.

Three keys of our blocks hold what only this API knows, so that it goes back just as it came:

    {"type": "tool_use", ..., "chat": {...}}        the tool call
    {"type": "chat_part", "chat": {...}}            a part of the content that is no text
    {"type": "chat_fields", "chat": {...}}          other fields of the message, such as its reasoning
"""

from collections.abc import Iterator, Mapping
from typing import Any

from run_specialist.record.messages import Block, Message, encode, text_of

PART = "chat_part"
FIELDS = "chat_fields"


def encoded(message: Message) -> bytes:
    """Return a message as JSON objects with commas between them; a user message of results becomes several."""
    said = _assistant(message) if message.role == "assistant" else _user(message)
    return b",".join(encode(one) for one in said)


def _user(message: Message) -> Iterator[dict[str, Any]]:
    """Yield each result as a message of its own, then the text, our last words at its end.

    Our words are never a system message: some servers refuse one in mid-conversation.
    """
    for block in message.blocks:
        if block["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(block["content"])}
    lines = [line for line in (text_of(message.blocks), message.landing_instruction) if line]
    if lines:
        yield {"role": "user", "content": "\n".join(lines)}


def _assistant(message: Message) -> Iterator[dict[str, Any]]:
    calls = [_call(block) for block in message.blocks if block["type"] == "tool_use"]
    fields = {key: value for block in message.blocks if block["type"] == FIELDS for key, value in block["chat"].items()}
    said: dict[str, Any] = {"role": "assistant", "content": _content(message.blocks), **fields}
    if calls:
        yield {**said, "tool_calls": calls}
    else:
        yield {**said, "content": said["content"] or ""}


def _content(blocks: tuple[Block, ...]) -> str | list[Mapping[str, Any]] | None:
    if not any(block["type"] == PART for block in blocks):
        return text_of(blocks) or None
    return [
        block["chat"] if block["type"] == PART else {"type": "text", "text": block["text"]}
        for block in blocks
        if block["type"] in {PART, "text"}
    ]


def _call(block: Block) -> Mapping[str, Any]:
    if "chat" in block:
        call: Mapping[str, Any] = block["chat"]
        return call
    function = {"name": block["name"], "arguments": encode(block["input"]).decode()}
    return {"id": block["id"], "type": "function", "function": function}
