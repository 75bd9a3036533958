"""A local simulator of the chat completions API that validates requests strictly and records all of them."""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.wire.simulator.rules.base import Call
from tests.wire.simulator.script import Received
from tests.wire.simulator.served import ScriptedApi
from tests.wire.simulator.wire import Wire

from . import faults
from .replies import ChatReply
from .rules import RULES
from .sse import chunks


@dataclass
class Recorded(Received):
    """Hold one request of chat completions."""

    message: dict[str, Any] = field(default_factory=dict)
    """The message that was sent back."""

    @property
    def schema(self) -> dict[str, Any] | None:
        """Return the schema that the reply has to match; None if there is none."""
        return (self.body.get("response_format") or {}).get("json_schema", {}).get("schema")

    @property
    def results(self) -> list[str]:
        """Return the contents of all tool messages, in order."""
        return [message["content"] for message in self.messages if message["role"] == "tool"]

    @property
    def last_line(self) -> str:
        """Return the line that the prompt ends with."""
        return str(self.messages[-1]["content"]).splitlines()[-1]


class ChatSimulator(ScriptedApi):
    """Serve `/v1/chat/completions` from a script; a request for more tokens than `most_room` is refused."""

    rules, record = RULES, Recorded

    def __init__(self, replies: Any = (), *, most_room: float = float("inf"), **options: Any) -> None:
        super().__init__(replies, **options)
        self._most_room = most_room

    @property
    def base_url(self) -> str:
        """Return the address for a client's `base_url`."""
        return f"{super().base_url}/v1"

    def _reply(self, call: Call, record: Recorded, wire: Wire) -> None:
        room = record.body.get("max_completion_tokens", 0)
        if room <= self._most_room:
            super()._reply(call, record, wire)
            return
        most = f"This model supports at most {self._most_room} completion tokens, whereas you provided {room}."
        record.status = 400
        self._refuse(wire, 400, "", f"max_tokens is too large: {room}. {most}")

    def _refuse(
        self, wire: Wire, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        faults.error(status, message, headers=headers).play(wire, {}, stream=False)

    def _made(self, call: Call, record: Recorded, reply: ChatReply) -> dict[str, Any]:
        record.message = copy.deepcopy(dict(reply.message))
        with self._lock:
            for wanted in record.message.get("tool_calls") or ():
                if "id" in wanted and wanted["id"] is None:
                    wanted["id"] = f"call_{next(self._ids):06d}"
        asked, said = len(record.raw) // 4, len(json.dumps(record.message)) // 4
        usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": record.body["model"],
            "choices": [{"index": 0, "message": record.message, "logprobs": None, "finish_reason": reply.reason}],
            "usage": usage if reply.usage is None else dict(reply.usage),
        }

    def _events(self, record: Recorded, reply: ChatReply, made: dict[str, Any], wire: Wire) -> Iterator[bytes]:
        told = record.body.get("stream_options", {}).get("include_usage") is True
        return chunks(made, reply.deltas, usage=told)
