"""The state of tools that the Messages API runs itself, in one conversation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from run_specialist import prompts
from run_specialist.providers.base import Opening
from run_specialist.providers.knowledge import Knowledge
from run_specialist.record.blocks import Block
from run_specialist.record.messages import Message
from run_specialist.record.server_calls import USE, is_result

NOT_RUN = "the endpoint does not run {} itself: {}; the run continues without {}"
_ABOUT_TOOLS = re.compile(r"web_search|web_fetch|server[ _]tool|input_schema|\btools\b", re.IGNORECASE)
"""Error texts of endpoints without such tools; most mistake them for tools without a schema."""


class EndpointTools:
    """The tools of a conversation, adapted to its endpoint."""

    def __init__(self, opening: Opening, knowledge: Knowledge) -> None:
        self._opening = opening
        self._knowledge = knowledge
        self._on_server = opening.tools.on_server if knowledge.capabilities.server_tools else ()
        self.warning = ""
        """The warning for the user if the endpoint refused them; empty if it did not."""

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """The definitions of the tools; tools that the endpoint lacks are replaced by those of this program."""
        return list(self._definitions())

    def _definitions(self) -> Iterator[Mapping[str, Any]]:
        for tool in self._opening.tools:
            if not tool.on_server or tool in self._on_server:
                yield tool.definition
            elif tool.instead:
                yield tool.instead.definition

    def were_refused(self, refusal: str) -> bool:
        """Return whether the endpoint refused its own tools; they are then no longer offered."""
        if not self._on_server or "tool_choice" in refusal or not _ABOUT_TOOLS.search(refusal):
            return False
        names = " and ".join(tool.name for tool in self._on_server)
        instead = [tool.instead.name for tool in self._on_server if tool.instead]
        self.warning = NOT_RUN.format(names, refusal, "it" if len(self._on_server) == 1 else "them")
        if instead:
            self.warning += f", but with {' and '.join(instead)} of this program"
        self._on_server = ()
        self._knowledge.capabilities = replace(self._knowledge.capabilities, server_tools=False)
        return True


class UnansweredToolUses:
    """Removes tool uses that the API will never answer, because it refuses a transcript that contains one.

    The API runs a use without a result at the beginning of the next request, if that adds only tool results.
    """

    def __init__(self) -> None:
        self._made: dict[int, tuple[Message, Message]] = {}
        self._without_uses: Sequence[Message] = ()
        """Messages at the beginning of the transcript that contain no use."""

    def removed(self, messages: Sequence[Message], *, may_run: bool) -> Sequence[Message]:
        """Return a transcript without such uses; the same object if there are none.

        may_run: whether the next request may run tools at all.
        """
        known = len(self._without_uses)
        if known > len(messages) or not all(map(is_, self._without_uses, messages)):
            known = 0
        uses = [place for place, message in enumerate(messages[known:], known) if _ids(message)]
        if not uses:
            self._without_uses = messages
            return messages
        answered = {str(block.get("tool_use_id")) for one in messages for block in one.blocks if is_result(block)}
        open_place = _open_place(messages) if may_run else None
        lost = [place for place in uses if place != open_place and not _ids(messages[place]) <= answered]
        if not lost:
            return messages
        kept = [*messages]
        for place in lost:
            kept[place] = self._without(messages[place], answered)
        return kept

    def _without(self, message: Message, answered: set[str]) -> Message:
        """Return a message without its unanswered uses; the same object each time, so that it is encoded once."""
        known = self._made.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        blocks = tuple(block for block in message.blocks if block["type"] != USE or str(block.get("id")) in answered)
        left: tuple[Block, ...] = blocks or ({"type": "text", "text": prompts.LEFT_OUT},)
        made = replace(message, blocks=left)
        self._made[id(message)] = (message, made)
        return made


def _ids(message: Message) -> set[str]:
    """Return the ids of the uses in a message."""
    if message.role != "assistant":
        return set()
    return {str(block.get("id")) for block in message.blocks if block["type"] == USE}


def _open_place(messages: Sequence[Message]) -> int | None:
    """Return the index of the reply whose uses the next request answers; None if there is none."""
    last = len(messages) - 1
    if messages[last].role == "assistant":
        return last
    only_results = all(block["type"] == "tool_result" for block in messages[last].content)
    return last - 1 if only_results else None
