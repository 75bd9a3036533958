"""Adapt a stored transcript for another model, which accepts only text and tool calls from earlier replies."""

from collections.abc import Sequence
from dataclasses import replace

from run_specialist import prompts
from run_specialist.loop.job import ResumeState
from run_specialist.record.messages import Block, Message

_PORTABLE_KEYS = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input")}
"""The block types of a reply that every model accepts, with the keys that make them up."""


def for_other_model(state: ResumeState) -> ResumeState:
    """Return the state without the parts that only the first model accepts; the same object if there are none."""
    messages = tuple(_portable_message(message) for message in state.messages)
    pending = state.pending and replace(state.pending, content=_portable(state.pending.content))
    if messages == state.messages and pending == state.pending:
        return state
    # The adapted transcript is stored as a new part, all of it copied.
    return replace(state, messages=messages, part=state.part + 1, copies=len(messages), pending=pending)


def _portable_message(message: Message) -> Message:
    if message.role == "user":
        return message
    blocks = _portable(message.blocks) or ({"type": "text", "text": prompts.LEFT_OUT},)
    return message if blocks == message.blocks else replace(message, blocks=blocks)


def _portable(blocks: Sequence[Block]) -> tuple[Block, ...]:
    return tuple(
        {key: block[key] for key in _PORTABLE_KEYS[block["type"]] if key in block}
        for block in blocks
        if block["type"] in _PORTABLE_KEYS
    )
