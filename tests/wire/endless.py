"""Streams that never end: a server whose model writes white space for as long as anybody reads it."""

import itertools
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.wire.chat.sse import encode as chat_event
from tests.wire.simulator.sse import encode as messages_event
from tests.wire.simulator.wire import Wire

MOST_EVENTS = 100_000
"""After so many events a stream gives up, so that a client that never hangs up fails its test."""


@dataclass
class Endless(ABC):
    """Stream some pieces of a reply, then white space until the client hangs up."""

    pieces: tuple[str, ...] = ()
    tool: str | None = None
    """The tool whose arguments the pieces are; None for text."""
    blank: str = "\n \n\t"
    reply: None = None
    status: int | None = 200
    _is_over: threading.Event = field(default_factory=threading.Event)
    _was_cut_off: bool = False

    @property
    def was_cut_off(self) -> bool:
        """Tell whether the client closed the connection, once the server has noticed it or given up."""
        return self._is_over.wait(30) and self._was_cut_off

    def play(self, wire: Wire, message: Mapping[str, Any], *, stream: bool) -> None:
        """Send events until the connection breaks."""
        del message
        assert stream
        try:
            wire.send_events(self._events())
        except ConnectionError:
            self._was_cut_off = True
        finally:
            self._is_over.set()

    def _texts(self) -> Iterator[str]:
        return itertools.chain(self.pieces, itertools.repeat(self.blank, MOST_EVENTS))

    @abstractmethod
    def _events(self) -> Iterator[bytes]:
        """Yield the events of the stream, encoded."""


class EndlessChat(Endless):
    """The stream of a chat completions server."""

    def _events(self) -> Iterator[bytes]:
        head = {"id": "chatcmpl-1", "created": 1, "model": "some-model", "object": "chat.completion.chunk"}
        function: dict[str, Any] = {"index": 0, "id": "call_1", "type": "function", "function": {"name": self.tool}}
        for number, text in enumerate(self._texts()):
            delta: dict[str, Any] = {"content": text}
            if self.tool is not None:
                call = function if number == 0 else {"index": 0}
                delta = {"tool_calls": [{**call, "function": {**call.get("function", {}), "arguments": text}}]}
            yield chat_event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


class EndlessMessages(Endless):
    """The stream of a Messages API."""

    def _events(self) -> Iterator[bytes]:
        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
        yield messages_event(("message_start", {"message": {**message, "model": "m", "stop_reason": None}}))
        block: dict[str, Any] = {"type": "text", "text": ""}
        if self.tool is not None:
            block = {"type": "tool_use", "id": "toolu_1", "name": self.tool, "input": {}}
        yield messages_event(("content_block_start", {"index": 0, "content_block": block}))
        for text in self._texts():
            delta = {"type": "text_delta", "text": text}
            if self.tool is not None:
                delta = {"type": "input_json_delta", "partial_json": text}
            yield messages_event(("content_block_delta", {"index": 0, "delta": delta}))


def half_of(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON that lacks its end."""
    return json.dumps(arguments)[:-2]
