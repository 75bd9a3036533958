"""Convert a transcript to messages without tool calls and results, for conversations whose calls are JSON in text."""

from collections.abc import Sequence
from operator import is_not

from run_specialist.providers import json_prompts
from run_specialist.providers.call_shape import written
from run_specialist.record.blocks import Block, text_of
from run_specialist.record.messages import Message


class PlainMessages:
    """A cache of converted messages: an already converted message stays the same object."""

    def __init__(self) -> None:
        self._sources: list[Message] = []
        self._plain: list[Message] = []
        self._names: dict[str, str] = {}

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all calls so far."""
        return frozenset(self._names)

    def add_id(self, call_id: str) -> None:
        """Record the id of a call whose reply may never become a message."""
        self._names.setdefault(call_id, "")

    def take(self, messages: Sequence[Message]) -> list[Message]:
        """Return a transcript, which extends the previous one or replaces it, as plain messages."""
        changed = map(is_not, self._sources, messages)
        known = next((place for place, is_new in enumerate(changed) if is_new), min(len(self._sources), len(messages)))
        del self._sources[known:], self._plain[known:]
        for message in messages[known:]:
            self._sources.append(message)
            self._plain.append(self._converted(message))
        return [*self._plain]

    def _converted(self, message: Message) -> Message:
        if message.role == "assistant":
            return Message("assistant", tuple(map(self._said, message.blocks)))
        if not any(block["type"] == "tool_result" for block in message.blocks):
            return message
        return Message.user("\n\n".join(map(self._told, message.content)))

    def _said(self, block: Block) -> Block:
        if block["type"] != "tool_use":
            return block
        self._names[block["id"]] = block["name"]
        return {"type": "text", "text": written(block["name"], block["input"])}

    def _told(self, block: Block) -> str:
        if block["type"] != "tool_result":
            return text_of([block])
        return json_prompts.result_of(self._names.get(block["tool_use_id"], ""), text_of(block["content"]))
