"""The provider of the offline researcher, which needs no model, no key and no network."""

import json
from collections.abc import Sequence
from typing import Any

from run_specialist.providers.base import Capabilities, Choice, Delta, Opening, Request, Watch
from run_specialist.providers.offline.answer import answer
from run_specialist.providers.offline.gathered import Findings
from run_specialist.providers.offline.next_calls import next_calls
from run_specialist.providers.offline.question import Question
from run_specialist.record.blocks import Block, text_of
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.tools.answer_prompts import NOT_DELIVERED
from run_specialist.tools.respond import NAME as RESPOND


class OfflineProvider:
    """Answers from the results of search and read; deterministic for a given transcript."""

    model = "offline"
    capabilities = Capabilities(forced_choice=True, max_output_tokens=4096, is_language_model=False, vendor="offline")

    def open(self, opening: Opening, watch: Watch | None = None) -> "OfflineConversation":
        """Start a conversation; `watch` receives each block of a reply as one piece."""
        return OfflineConversation(opening, watch)

    def cost(self, usage: Usage) -> float | None:  # noqa: ARG002 - nothing is billed
        """Return 0, because no model is called."""
        return 0.0

    async def aclose(self) -> None:
        """Do nothing: this provider has no connections."""


class OfflineConversation:
    """The conversation of one run; stateless between turns."""

    def __init__(self, opening: Opening, watch: Watch | None) -> None:
        """Start a conversation with the tools of a run."""
        self._tools = opening.tools
        self._watch = watch

    async def ask(self, request: Request) -> Reply:
        """Return the next turn, a pure function of the transcript."""
        messages, choice = request.messages, request.choice
        gathered = Findings.of(messages)
        question = Question(gathered.question)
        is_last = choice is not Choice.AUTO or gathered.must_answer
        if calls := [] if is_last else next_calls(question, gathered, self._tools):
            return self._calls([(call.tool, dict(call.arguments)) for call in calls], messages)
        response = answer(question, gathered)
        if choice is Choice.NONE or (choice is Choice.AUTO and RESPOND not in self._tools):
            was_returned = text_of(messages[-1].blocks).startswith(NOT_DELIVERED)
            return self._text(response.model_dump_json() if was_returned else response.answer)
        return self._calls([(RESPOND, response.model_dump())], messages)

    def _calls(self, calls: Sequence[tuple[str, dict[str, Any]]], messages: Sequence[Message]) -> Reply:
        # Ids must be unique within a transcript, so they continue the count of previous calls.
        made = sum(block.get("type") == "tool_use" for message in messages for block in message.content)
        blocks: list[Block] = []
        for number, (name, arguments) in enumerate(calls, made + 1):
            self._show(json.dumps(arguments, ensure_ascii=False), name)
            blocks.append({"type": "tool_use", "id": f"toolu_offline_{number:04}", "name": name, "input": arguments})
        return Reply(Stop.WANTS_TOOLS, tuple(blocks), reason="tool_use")

    def _text(self, text: str) -> Reply:
        self._show(text)
        return Reply(Stop.ANSWERED, ({"type": "text", "text": text},), reason="end_turn")

    def _show(self, text: str, tool: str | None = None) -> None:
        if self._watch is not None:
            self._watch(Delta(text, tool))
