"""Adapt messages for another model, which accepts only text and tool calls from an earlier model's replies."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from run_specialist import prompts
from run_specialist.loop.reply_room import has_thought
from run_specialist.providers.openai_messages import FIELDS
from run_specialist.record.blocks import Block, sendable, spoken
from run_specialist.record.messages import Message

_PORTABLE_KEYS = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input")}
"""The block types that every model accepts in a reply, with their keys."""
_PORTABLE_ID = re.compile(r"moved_[0-9a-f]{12}")
"""Pattern of ids that every API accepts and no server generates."""
_MENTIONED = re.compile(r"(execution_id=|executionId:')([^\s']+)")
"""Pattern of a call id in a note to the model; see `prompts.read_on` and `archived_placeholder`."""

NameOf = Callable[[str], str]
"""Returns the new id of a call."""


def portable_messages(messages: Sequence[Message], *, also_written: bool = False) -> tuple[Message, ...]:
    """Return messages without parts that only their own model accepts; unchanged messages are the same objects.

    also_written: also remove thinking that a server wrote at the beginning of the text.
    """
    return tuple(_portable_message(message, also_written=also_written) for message in messages)


def portable_blocks(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return the blocks of a reply that every model accepts, with the keys that every model accepts."""
    return tuple(
        {key: block[key] for key in _PORTABLE_KEYS[block["type"]] if key in block}
        for block in blocks
        if block["type"] in _PORTABLE_KEYS
    )


def lost_parts(messages: Sequence[Message]) -> str:
    """Return the kinds of transcript parts that another model does not receive; empty if it receives everything."""
    blocks = [block for message in messages if message.role == "assistant" for block in message.blocks]
    own = {block["type"] for block in blocks} - {*_PORTABLE_KEYS, FIELDS}
    if has_thought(messages):
        return "the thoughts"
    return "parts of the replies" if own else ""


def portable_id(call_id: str) -> str:
    """Return the id of a call for another model, derived from the original one.

    One API accepts only some characters, the other only short ids, and a server may remember its own ids and refuse
    them in a request to another model.
    """
    if _PORTABLE_ID.fullmatch(call_id):
        return call_id
    return f"moved_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def with_portable_ids(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages in which each call has an id for another model; unchanged messages are the same objects."""
    adapted = (replace(message, blocks=named_blocks(message.blocks, portable_id)) for message in messages)
    return tuple(old if new.blocks == old.blocks else new for old, new in zip(messages, adapted, strict=True))


def named_blocks(blocks: Sequence[Block], name: NameOf) -> tuple[Block, ...]:
    """Return blocks in which all calls have new ids."""
    return tuple(_with_id(block, name) for block in blocks)


def named_arguments(arguments: Any, name: NameOf) -> Any:  # noqa: ANN401 - what a model wrote
    """Return the arguments of a call with new ids, since a call may refer to an earlier one."""
    if not isinstance(arguments, Mapping) or "execution_id" not in arguments:
        return arguments
    return {**arguments, "execution_id": name(str(arguments["execution_id"]))}


def naming(text: str, name: NameOf) -> str:
    """Return a text with new ids: a notice on reading the rest of a result, or a placeholder of a summarized result."""
    return _MENTIONED.sub(lambda found: found[1] + name(found[2]), text)


def _with_id(block: Block, name: NameOf) -> Block:
    match block.get("type"):
        case "tool_use":
            call_id = name(block["id"])
            # Parts that a server expects back unchanged have the old id, and only that server expects them.
            kept = block if call_id == block["id"] else {key: value for key, value in block.items() if key != "chat"}
            return {**kept, "id": call_id, "input": named_arguments(block.get("input"), name)}
        case "tool_result":
            return {**block, "tool_use_id": name(block["tool_use_id"]), "content": naming(block["content"], name)}
        case "text":
            return {**block, "text": naming(block["text"], name)}
        case _:
            return block


def _portable_message(message: Message, *, also_written: bool) -> Message:
    if message.role == "user":
        return message
    written = tuple(_without_thought(block) for block in message.blocks) if also_written else message.blocks
    blocks = portable_blocks(sendable(written)) or ({"type": "text", "text": prompts.LEFT_OUT},)
    return message if blocks == message.blocks else replace(message, blocks=blocks)


def _without_thought(block: Block) -> Block:
    return {**block, "text": spoken(block["text"])} if block["type"] == "text" else block
