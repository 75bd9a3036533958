"""Scripted replies for the faults between a client and a chat completions server."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.wire.simulator.faults import ConnectionReset, MislabelledReply, Raw, Truncated, html, json_value, no_json
from tests.wire.simulator.wire import EVENTS, Wire

from .replies import ChatReply
from .sse import chunks

__all__ = [
    "BrokenOff",
    "ConnectionReset",
    "MislabelledReply",
    "Raw",
    "Stream",
    "Truncated",
    "error",
    "html",
    "invalid",
    "json_value",
    "no_json",
    "not_found",
    "rate_limited",
    "unauthorised",
]


@dataclass(frozen=True)
class BrokenOff:
    """Close or reset the connection in mid-reply; a stream may also end early with a well-formed HTTP body."""

    reply: ChatReply
    after_chunks: int = 2
    reset: bool = False
    silent: bool = False
    """True for a stream whose body ends in good order, too early."""
    status: int | None = 200

    def play(self, wire: Wire, completion: dict[str, Any], *, stream: bool) -> None:
        """Send the first part of the reply."""
        if stream:
            sent = list(chunks(completion, self.reply.deltas, usage=True))[: self.after_chunks]
            wire.send_events(sent, complete=self.silent)
        else:
            body = json.dumps(completion).encode()
            wire.send_part(body[: len(body) // 2], announced=len(body))
        if self.reset:
            wire.reset()


@dataclass(frozen=True)
class Stream:
    """Send these chunks as a stream and nothing else; a string is sent unchanged."""

    chunks: tuple[Mapping[str, Any] | str, ...]
    kind: str = EVENTS
    reply: ChatReply | None = None
    status: int | None = 200

    def play(self, wire: Wire, completion: dict[str, Any], *, stream: bool) -> None:
        """Send them."""
        lines = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in self.chunks]
        body = "".join(f"data: {line}\n\n" for line in lines).encode()
        wire.send(200, body, kind=self.kind)


def error(
    status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None, **fields: Any
) -> Raw:
    """Build an error in the API's shape."""
    shape = {"message": message, "type": "invalid_request_error", "param": None, "code": code, **fields}
    return Raw(status, json.dumps({"error": shape}).encode(), headers=headers or {})


def invalid(message: str, code: str | None = None) -> Raw:
    """Build a 400 with a message of your own."""
    return error(400, message, code=code)


def unauthorised(key: str = "sk-test") -> Raw:
    """Build the 401 for a key that is not valid, which some servers quote."""
    return error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")


def not_found() -> Raw:
    """Build the 404 for a model that does not exist."""
    return error(404, "The model `none` does not exist.", code="model_not_found")


def rate_limited(retry_after: float | None = None) -> Raw:
    """Build a 429, with the seconds to wait if they are given."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return error(429, "Rate limit reached.", code="rate_limit_exceeded", headers=headers)
