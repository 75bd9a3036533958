"""Limit the length of a reply below the account's limit where only a model that repeats itself would write more."""

from collections.abc import Iterable, Mapping

from run_specialist.record.blocks import Block, spoken, text_of
from run_specialist.record.messages import Message

LANDING_TOKENS = 4_096
"""Maximum `max_tokens` of a landing request, doubled once a reply was truncated [tokens]."""
CALL_TOKENS = 2_048
"""Maximum `max_tokens` of other requests if calls are JSON, because each reply then contains one call [tokens]."""


def longest_reply(*, in_landing: bool, json_calls: bool, thinks: bool) -> int | None:
    """Return the maximum length of a reply; None if only the account limits it [tokens].

    thinks: whether the model may think; thinking counts as part of the reply.
    """
    if thinks:
        return None
    if in_landing:
        return LANDING_TOKENS
    return CALL_TOKENS if json_calls else None


def has_thought(messages: Iterable[Message]) -> bool:
    """Return whether messages contain thinking, in any form in which an API returns it."""
    return any(is_thought(message.blocks) for message in messages if message.role == "assistant")


def is_thought(blocks: Iterable[Block]) -> bool:
    """Return whether the blocks of a turn contain thinking."""
    blocks = tuple(blocks)
    if any(_is_thinking(block) for block in blocks):
        return True
    text = text_of(blocks)
    return spoken(text) != text


def _is_thinking(block: Block) -> bool:
    extra = block.get("chat")
    # Chat completions have no standard name for it: `reasoning`, `reasoning_content`, `thinking`.
    names = (block.get("type"), *extra, extra.get("type")) if isinstance(extra, Mapping) else (block.get("type"),)
    return any(word in str(name) for name in names for word in ("thinking", "reasoning"))
