"""Convert the transcript's blocks to messages of the chat completions API.

The key `chat` of a block contains data specific to this API, so that it is sent back unchanged:

    {"type": "tool_use", ..., "chat": {...}}        the tool call
    {"type": "chat_part", "chat": {...}}            a part of the content that is not text
    {"type": "chat_fields", "chat": {...}}          other fields of the message, such as its reasoning
"""

from collections.abc import Iterator, Mapping
from typing import Any

from run_specialist.record.blocks import Block, text_of
from run_specialist.record.messages import Message, encode

PART = "chat_part"
FIELDS = "chat_fields"


def encoded(message: Message) -> bytes:
    """Return a message as comma-separated JSON objects; a user message with tool results becomes several."""
    chat_messages = _assistant(message) if message.role == "assistant" else _user(message)
    return b",".join(map(encode, chat_messages))


def _user(message: Message) -> Iterator[dict[str, Any]]:
    """Yield one message per tool result, then the text, ending with the landing instruction.

    The instruction is not a system message, because some servers refuse one in the middle of a conversation.
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
    chat_message: dict[str, Any] = {"role": "assistant", "content": _content(message.blocks), **fields}
    if calls:
        yield {**chat_message, "tool_calls": calls}
    else:
        yield {**chat_message, "content": chat_message["content"] or ""}


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
