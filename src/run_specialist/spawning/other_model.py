"""Adapt a stored transcript for another model, which accepts only text and tool calls from earlier replies."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from run_specialist import prompts
from run_specialist.loop.compaction.turns import archived_placeholder
from run_specialist.loop.job import ResumeState
from run_specialist.loop.reply_room import has_thought
from run_specialist.providers.json_reader import unique_id
from run_specialist.providers.openai_messages import FIELDS
from run_specialist.record.messages import Block, Message, sendable, spoken
from run_specialist.store.stored import StoredRun

_PORTABLE_KEYS = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input")}
"""The block types of a reply that every model accepts, with the keys that make them up."""

_PORTABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids of calls that both APIs accept: the one refuses other characters, the other longer ids."""


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


def with_portable_ids(run: StoredRun) -> StoredRun:
    """Return a run whose call ids every API accepts; the same object if they are."""
    odd = [block["id"] for turn in run.turns for block in turn.blocks if _has_odd_id(block)]
    if not odd:
        return run
    taken = {block["id"] for turn in run.turns for block in turn.blocks if block.get("type") == "tool_use"}
    names: dict[str, str] = {}
    for number, call_id in enumerate(dict.fromkeys(odd), 1):
        names[call_id] = unique_id(f"copied_{number}", taken, f"copied_{number}_")
        taken.add(names[call_id])

    def named(blocks: Sequence[Block]) -> tuple[Block, ...]:
        return tuple(_with_id(block, names) for block in blocks)

    return replace(
        run,
        turns=tuple(replace(turn, blocks=named(turn.blocks)) for turn in run.turns),
        calls=tuple(
            replace(one, call=replace(one.call, id=names.get(one.call.id, one.call.id)), note=_naming(one.note, names))
            for one in run.calls
        ),
        messages=tuple(
            replace(one, message=replace(one.message, blocks=named(one.message.blocks))) for one in run.messages
        ),
    )


def _has_odd_id(block: Block) -> bool:
    return block.get("type") == "tool_use" and not _PORTABLE_ID.fullmatch(str(block.get("id")))


def _with_id(block: Block, names: Mapping[str, str]) -> Block:
    match block.get("type"):
        case "tool_use" if block["id"] in names:
            # What a server wants back unchanged has the old id, and only that server wants it.
            return {key: names[value] if key == "id" else value for key, value in block.items() if key != "chat"}
        case "tool_result":
            call_id, content = block["tool_use_id"], block["content"]
            return {**block, "tool_use_id": names.get(call_id, call_id), "content": _naming(content, names)}
        case _:
            return block


def _naming(text: str, names: Mapping[str, str]) -> str:
    """Return a result or its note with the new ids where the model reads how to read on."""
    for old, new in names.items():
        text = text.replace(f"execution_id={old} ", f"execution_id={new} ")
        text = text.replace(archived_placeholder(old), archived_placeholder(new))
    return text


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
