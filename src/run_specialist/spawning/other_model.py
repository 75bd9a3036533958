"""Adapt a stored transcript for another model, which accepts only text and tool calls from earlier replies."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from run_specialist import prompts
from run_specialist.loop.job import ResumeState
from run_specialist.loop.reply_room import has_thought
from run_specialist.providers.openai_messages import FIELDS
from run_specialist.record.messages import Block, Message, sendable, spoken
from run_specialist.store.stored import StoredRun

_PORTABLE_KEYS = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input")}
"""The block types of a reply that every model accepts, with the keys that make them up."""

_MENTIONED = re.compile(r"(execution_id=|executionId:')([^\s']+)")
"""Where a text of ours mentions the id of a call; see `prompts.read_on` and `archived_placeholder`."""


def for_other_model(state: ResumeState, *, also_written: bool = False) -> ResumeState:
    """Return the state without the parts that only the first model accepts; the same object if there are none.

    also_written: leave out thinking that a server wrote at the beginning of the text, too.
    """
    messages = tuple(_portable_message(message, also_written=also_written) for message in state.messages)
    pending = state.pending and replace(state.pending, content=_portable(state.pending.content))
    if messages == state.messages and pending == state.pending:
        return state
    # The adapted transcript is stored as a new part, all of it copied.
    return replace(state, messages=messages, part=state.part + 1, copies=len(messages), pending=pending)


def lost_parts(messages: Sequence[Message]) -> str:
    """Return which parts of a transcript another model does not get; empty if it gets all."""
    blocks = [block for message in messages if message.role == "assistant" for block in message.blocks]
    own = {block["type"] for block in blocks} - {*_PORTABLE_KEYS, FIELDS}
    if has_thought(messages):
        return "the thoughts"
    return "parts of the replies" if own else ""


def with_own_ids(run: StoredRun) -> StoredRun:
    """Return a run with new ids of all calls.

    One API accepts only some characters, the other only short ids, and a server may remember the ids that it has made
    and refuse them in a request to another model.
    """
    contents = [*(turn.blocks for turn in run.turns), *(one.message.blocks for one in run.messages)]
    ids = dict.fromkeys(block["id"] for blocks in contents for block in blocks if block.get("type") == "tool_use")
    names = {call_id: f"copied_{number}" for number, call_id in enumerate(ids, 1)}

    def named(blocks: Sequence[Block]) -> tuple[Block, ...]:
        return tuple(_with_id(block, names) for block in blocks)

    return replace(
        run,
        turns=tuple(replace(turn, blocks=named(turn.blocks)) for turn in run.turns),
        calls=tuple(
            replace(
                one,
                call=replace(
                    one.call,
                    id=names.get(one.call.id, one.call.id),
                    arguments=_named_arguments(one.call.arguments, names),
                ),
                note=_naming(one.note, names),
            )
            for one in run.calls
        ),
        messages=tuple(
            replace(one, message=replace(one.message, blocks=named(one.message.blocks))) for one in run.messages
        ),
    )


def _with_id(block: Block, names: Mapping[str, str]) -> Block:
    match block.get("type"):
        case "tool_use":
            # What a server wants back unchanged has the old id, and only that server wants it.
            kept = {key: value for key, value in block.items() if key != "chat"}
            return {**kept, "id": names[block["id"]], "input": _named_arguments(block.get("input"), names)}
        case "tool_result":
            call_id = block["tool_use_id"]
            return {**block, "tool_use_id": names.get(call_id, call_id), "content": _naming(block["content"], names)}
        case "text":
            return {**block, "text": _naming(block["text"], names)}
        case _:
            return block


def _named_arguments(arguments: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - what a model wrote
    """Return the arguments of a call, which may be about an earlier call."""
    if not isinstance(arguments, Mapping) or "execution_id" not in arguments:
        return arguments
    return {**arguments, "execution_id": names.get(str(arguments["execution_id"]), arguments["execution_id"])}


def _naming(text: str, names: Mapping[str, str]) -> str:
    """Return a text of ours with the new ids: how to read on in a result, or the placeholder of a summarized one."""
    return _MENTIONED.sub(lambda found: found[1] + names.get(found[2], found[2]), text)


def _portable_message(message: Message, *, also_written: bool) -> Message:
    if message.role == "user":
        return message
    written = tuple(_without_thought(block) for block in message.blocks) if also_written else message.blocks
    blocks = _portable(sendable(written)) or ({"type": "text", "text": prompts.LEFT_OUT},)
    return message if blocks == message.blocks else replace(message, blocks=blocks)


def _without_thought(block: Block) -> Block:
    return {**block, "text": spoken(block["text"])} if block["type"] == "text" else block


def _portable(blocks: Sequence[Block]) -> tuple[Block, ...]:
    return tuple(
        {key: block[key] for key in _PORTABLE_KEYS[block["type"]] if key in block}
        for block in blocks
        if block["type"] in _PORTABLE_KEYS
    )
