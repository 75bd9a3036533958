"""A Messages API on loopback that answers each child according to the fate in its question."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.loopback_server import in_thread, read_request

QUESTION = re.compile(rb"child (\d+): ([a-zA-Z0-9 ]+)")
WAIT = 0.01
"""Delay of an answer, so that the children run concurrently [s]."""

Reply = tuple[int, bytes]


class Crowded:
    """Answers the requests, and counts those of each child."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.at_once = self.most_at_once = 0
        self.url = ""
        self._awaited = 0
        self._all_asked = asyncio.Event()

    def expect(self, children: int) -> None:
        """Reset the counters, and answer only after so many children have sent their first request."""
        self.requests.clear()
        self.most_at_once, self._awaited, self._all_asked = 0, children, asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests on one connection until it ends."""
        try:
            while True:
                _, body = await read_request(reader)
                if not await self._answer(body, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return False if the connection ends with it."""
        found = QUESTION.search(body)
        assert found, body
        child, fate = int(found[1]), found[2].decode()
        self.requests[child] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (self._gather() if self.requests[child] == 1 and self._awaited else asyncio.sleep(WAIT))
        finally:
            self.at_once -= 1
        request = json.loads(body)
        turn = sum(message["role"] == "assistant" for message in request["messages"]) + 1
        if fate == "reset" and turn == 2:
            writer.transport.abort()
            return False
        status, said = reply(child, fate, turn, request)
        cut = len(said) // 2 if fate == "cut" and turn == 3 else 0
        head = f"HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\nx-should-retry: false\r\n"
        writer.write(f"{head}content-length: {len(said)}\r\n\r\n".encode() + (said[:cut] if cut else said))
        await writer.drain()
        return not cut

    async def _gather(self) -> None:
        if len(self.requests) == self._awaited:
            self._all_asked.set()
        await self._all_asked.wait()


def reply(child: int, fate: str, turn: int, request: dict[str, Any]) -> Reply:
    """Return the status and body of an answer.

    turn: Number of the turn, from 1.
    """
    if fate == "overloaded":
        return _error(529, "overloaded_error")
    if turn == 1:
        how = {"raises": "raise", "hangs": "hang", "aborted": "wait", "cancelled": "wait"}.get(fate, "find")
        return _calls(child, turn, ("look", {"query": f"{child}a"}), ("look", {"query": f"{child}b", "how": how}))
    match fate:
        case "500":
            return _error(500, "api_error")
        case "400":
            return _error(400, "invalid_request_error")
        case "no JSON":
            return 200, b'{"type": "mess'
        case "refusal":
            return _message(child, turn, [], "refusal")
        case "mute":
            return _message(child, turn, [], "end_turn")
        case "misfit" | "landing":
            return _calls(child, turn, ("respond", {"answer": f"answer {child}"}))
    if turn == 2:
        return _calls(child, turn, ("look", {"query": f"{child}c"}))
    return _calls(child, turn, ("respond", {"answer": f"answer {child}"}))


def _error(status: int, kind: str) -> Reply:
    return status, json.dumps({"type": "error", "error": {"type": kind, "message": "not now"}}).encode()


def _calls(child: int, turn: int, *wanted: tuple[str, dict[str, Any]]) -> Reply:
    blocks = [
        {"type": "tool_use", "id": f"call_{child}_{turn}_{place}", "name": name, "input": arguments}
        for place, (name, arguments) in enumerate(wanted)
    ]
    return _message(child, turn, blocks, "tool_use")


def _message(child: int, turn: int, content: list[dict[str, Any]], reason: str) -> Reply:
    usage = {"input_tokens": 100 * turn, "output_tokens": 10}
    said = {"id": f"msg_{child}_{turn}", "type": "message", "role": "assistant", "model": "claude-haiku-4-5"}
    return 200, json.dumps({**said, "content": content, "stop_reason": reason, "usage": usage}).encode()


@contextmanager
def serving() -> Iterator[Crowded]:
    """Run the server in a thread."""
    crowded = Crowded()
    with in_thread(crowded.serve) as crowded.url:
        yield crowded
