"""The simulator's next reply, and the record of its requests."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .faults import Fault
from .prompt import Block, as_blocks
from .replies import Reply

Answer = Reply | Fault


@dataclass
class Received:
    """Hold one request of either API as received, and how it was handled."""

    raw: bytes
    headers: Mapping[str, str]
    """Names in lower case."""
    method: str = "POST"
    path: str = "/v1/messages"
    body: dict[str, Any] = field(default_factory=dict)
    """The parsed body; empty when it is no JSON object."""
    status: int | None = None
    """None until the reply is known, and when the connection broke without one."""
    rule: str | None = None
    """Id of the rule that the request broke."""
    error: str | None = None
    """Message of the refusal."""

    @property
    def stream(self) -> bool:
        """Tell whether the reply was asked for as a stream."""
        return self.body.get("stream") is True

    @property
    def tool_choice(self) -> Any:
        """Return the option as sent."""
        return self.body.get("tool_choice")

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return the messages as sent."""
        return list(self.body.get("messages", ()))


@dataclass
class Recorded(Received):
    """Hold one request of the Messages API."""

    usage: dict[str, Any] = field(default_factory=dict)
    content: list[Block] = field(default_factory=list)
    """The blocks that were sent back, with their ids and signatures."""

    @property
    def schema(self) -> dict[str, Any] | None:
        """Return the schema that the reply has to match; None if there is none."""
        return (self.body.get("output_config", {}).get("format") or {}).get("schema")

    @property
    def tool_names(self) -> list[str]:
        """Return the names of the tools on offer."""
        return [tool["name"] for tool in self.body.get("tools") or ()]

    @property
    def results(self) -> dict[str, str]:
        """Return the text of each tool result in the last message by call id."""
        return {block["tool_use_id"]: _words(block) for block in self._last if block["type"] == "tool_result"}

    @property
    def last_line(self) -> str:
        """Return the line that the prompt ends with."""
        return (_words(self._last[-1]).splitlines() or [""])[-1] if self._last else ""

    @property
    def calls_so_far(self) -> int:
        """Return how many tool calls stand in the history."""
        blocks = [block for message in self.messages for block in as_blocks(message["content"])]
        return sum(block["type"] == "tool_use" for block in blocks)

    @property
    def oddities(self) -> list[str]:
        """Return what the API accepts and a careful client never sends: doubled roles, and text behind results."""
        found, before = [], ""
        for index, message in enumerate(self.messages):
            if message["role"] == before:
                found.append(f"messages.{index}: consecutive {before} messages")
            before = message["role"]
            kinds = [block["type"] for block in as_blocks(message["content"])]
            if "tool_result" in kinds and "text" in kinds[kinds.index("tool_result") :]:
                found.append(f"messages.{index}: text after tool results")
        return found

    @property
    def _last(self) -> list[Block]:
        return as_blocks(self.messages[-1]["content"]) if self.messages else []


Policy = Callable[[Recorded], Answer]


class OffScript(Exception):
    """A request arrived that has no scripted reply."""


class Script:
    """Return replies in order, or call a policy."""

    def __init__(self, replies: Sequence[Answer] | Policy) -> None:
        self._lock = threading.Lock()
        self._policy = replies if callable(replies) else None
        self._replies = [] if callable(replies) else list(replies)
        self._given = 0

    @property
    def unused(self) -> int:
        """Return the number of unused replies."""
        return len(self._replies) - self._given

    def next(self, request: Received) -> Answer:
        """Return the reply to a request; raise OffScript when there is none."""
        if self._policy is not None:
            return self._policy(request)
        with self._lock:
            if not self.unused:
                message = f"request {self._given + 1} has no scripted reply"
                raise OffScript(message)
            self._given += 1
            return self._replies[self._given - 1]


def _words(block: Mapping[str, Any]) -> str:
    """Return the text of a block, that of a tool result included."""
    if block["type"] == "text":
        return str(block["text"])
    parts = as_blocks(block.get("content"))
    return "\n".join(str(part["text"]) for part in parts if part["type"] == "text")
