"""A scripted model behind the Messages API on loopback, which counts every request by item and turn."""

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.server.codec import decode, encode
from bench.server.http import Connection
from bench.server.service import Response

_ITEM = re.compile(rb"ITEM\{(\d+)\}")
_REFUSALS = {
    "rate_limited": (429, "rate_limit_error", "This request would exceed your rate limit."),
    "quota": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "credentials": (401, "authentication_error", "invalid x-api-key"),
    "invalid": (400, "invalid_request_error", "messages: Input is not valid"),
    "model_missing": (404, "not_found_error", "model: nothing"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was answered."""

    item: int
    turn: int
    """Number of replies before it."""
    at: float
    """Time of its arrival [seconds since 1970]."""
    worker: int
    """Number of the worker that sent it."""


class Model:
    """Calls a tool for some turns, then answers."""

    def __init__(self, turns: int, delay: float) -> None:
        """Set the script.

        turns: replies of each run, including the answer.
        delay: time for a reply [s].
        """
        self.turns, self.delay = turns, delay
        self.requests: list[Request] = []
        """Every request that was answered, and so is paid for."""
        self.refusal = ""
        """The kind of failure while the endpoint refuses all requests; empty while it answers."""
        self.refused: list[float] = []
        """Times of the refused requests [seconds since 1970]."""
        self.url = ""

    def answer(self, target: str, body: bytes) -> Response:
        """Return the response to a request; the first part of its path is the number of the worker."""
        now = time.time()
        if self.refusal:
            self.refused.append(now)
            return self._refused()
        request = decode(body)
        item = int(_ITEM.findall(body)[0])
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        self.requests.append(Request(item, turn, now, int(target.split("/")[1])))
        return Response(200, encode(self._reply(request, turn)), delay=self.delay)

    def _refused(self) -> Response:
        status, kind, message = _REFUSALS[self.refusal]
        return Response(status, encode({"type": "error", "error": {"type": kind, "message": message}}))

    def _reply(self, request: dict[str, Any], turn: int) -> dict[str, Any]:
        number = len(self.requests)
        last = turn >= self.turns - 1
        call = {"type": "tool_use", "id": f"toolu_{number:08}", "name": "grep", "input": {"pattern": f"owl|{turn}"}}
        return {
            "id": f"msg_{number:08}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [{"type": "text", "text": "Owls eat mice."} if last else call],
            "stop_reason": "end_turn" if last else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 10},
        }

    def paid_again(self) -> Counter[tuple[int, int]]:
        """Return how often each turn of an item was paid for again."""
        counts = Counter((one.item, one.turn) for one in self.requests)
        return Counter({key: count - 1 for key, count in counts.items() if count > 1})


@contextmanager
def serving(model: Model) -> Iterator[Model]:
    """Serve a model on a loopback port, in a thread, while the block runs."""
    loop = asyncio.new_event_loop()
    connections: list[Connection] = []

    def connection() -> Connection:
        connections.append(Connection(model))  # type: ignore[arg-type]
        return connections[-1]

    server = loop.run_until_complete(loop.create_server(connection, "127.0.0.1", 0))
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def close() -> None:
        server.close()
        for one in connections:
            one.close()
        await asyncio.sleep(0)

    try:
        yield model
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
