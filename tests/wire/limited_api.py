"""The Messages API on loopback behind a rate limit, which counts what it refuses."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.loopback_server import in_thread, read_request

TURNS = 4
"""Requests of each run: it looks something up in all but the last one."""

Rule = Callable[["LimitedApi"], bool]
"""Returns whether a request is accepted."""


@dataclass
class LimitedApi:
    """Answers every run in the same way, as far as its rule allows."""

    rule: Rule
    wait: float | None = None
    """The `retry-after` of a refusal [s]."""
    seconds: float = 0.01
    """How long a reply takes [s]."""
    together: int = 0
    """No request is answered before so many have been accepted."""
    url: str = ""
    at_once: int = 0
    most_at_once: int = 0
    accepted: int = 0
    _all_here: asyncio.Event = field(default_factory=asyncio.Event)
    refused: list[int] = field(default_factory=list)
    """For each refused request how many had been accepted before."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests on one connection until it ends."""
        try:
            while True:
                _, body = await read_request(reader)
                status, headers, reply = await self._answer(json.loads(body))
                lines = {"content-type": "application/json", "content-length": str(len(reply)), **headers}
                told = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                writer.write(f"HTTP/1.1 {status} Said\r\n{told}\r\n".encode() + reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: dict[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        self.at_once += 1
        try:
            if not self.rule(self):
                self.refused.append(self.accepted)
                error = {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many requests."}}
                after = {} if self.wait is None else {"retry-after": f"{self.wait:g}"}
                return 429, after, json.dumps(error).encode()
            self.accepted += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            if self.accepted >= self.together:
                self._all_here.set()
            await self._all_here.wait()
            await asyncio.sleep(self.seconds)
            turn = sum(message["role"] == "assistant" for message in request["messages"])
            return 200, {}, json.dumps(_message(turn, self.accepted)).encode()
        finally:
            self.at_once -= 1


def at_most(most: int) -> Rule:
    """Accept this many concurrent requests."""
    return lambda api: api.at_once <= most


def _message(turn: int, number: int) -> dict[str, Any]:
    name, arguments = ("look", {"query": "a"}) if turn < TURNS - 1 else ("respond", {"answer": "mice"})
    call = {"type": "tool_use", "id": f"call_{number}", "name": name, "input": {**arguments}}
    usage = {"input_tokens": 100, "output_tokens": 10}
    said = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-haiku-4-5"}
    return {**said, "content": [call], "stop_reason": "tool_use", "usage": usage}


@contextmanager
def limited(rule: Rule, **options: Any) -> Iterator[LimitedApi]:
    """Run the server in a thread."""
    api = LimitedApi(rule, **options)
    with in_thread(api.serve) as api.url:
        yield api
