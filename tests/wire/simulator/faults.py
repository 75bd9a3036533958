"""Failures between a client and the API, as scripted replies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .gates import Gate
from .prompt import serialise
from .replies import Reply
from .sse import encode, events
from .wire import EVENTS, JSON, Wire

Message = dict[str, Any]


class Fault(Protocol):
    """Play one failure on the wire."""

    @property
    def status(self) -> int | None:
        """Return the HTTP status that the client sees, None when it sees none."""

    @property
    def reply(self) -> Reply | None:
        """Return the reply that is spoilt on its way; one that was made is billed and cached."""

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Write the failure; `message` is the finished reply, empty without one."""


@dataclass(frozen=True)
class Raw:
    """Send any status, body and content type."""

    status: int
    body: bytes
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    reply: Reply | None = None

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Send it."""
        wire.send(self.status, self.body, kind=self.kind, headers=self.headers)


@dataclass(frozen=True)
class ApiError:
    """Send an error in the API's shape."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    reply: Reply | None = None

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Send it."""
        wire.send_error(self.status, self.kind, self.message, self.headers)


@dataclass(frozen=True)
class BrokenOff:
    """Close the connection, or reset it, in the middle of a reply."""

    reply: Reply
    after_events: int = 4
    """Events of a stream that still arrive whole; of a JSON reply half the bytes do."""
    reset: bool = False
    status: int | None = 200

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Send the first part of the reply."""
        if stream:
            sent = [encode(event) for event in events(message, self.reply.cut_json)]
            wire.send_events(sent[: self.after_events], complete=False)
        else:
            body = serialise(message)
            wire.send_part(body[: len(body) // 2], announced=len(body))
        if self.reset:
            wire.reset()


@dataclass(frozen=True)
class ErrorEvent:
    """Send an `error` event in the middle of a stream; without streaming, send the error as the response."""

    reply: Reply
    after_events: int = 4
    kind: str = "overloaded_error"
    message: str = "Overloaded"
    status: int | None = 200

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Send some events, the error, and the end of the body."""
        if not stream:
            wire.send_error(529, self.kind, self.message)
            return
        sent = [encode(event) for event in events(message, self.reply.cut_json)][: self.after_events]
        error = {"error": {"type": self.kind, "message": self.message}}
        wire.send_events([*sent, encode(("error", error))])


@dataclass(frozen=True)
class Truncated:
    """Send half a JSON body without a length, so that it looks complete."""

    reply: Reply
    status: int | None = 200

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Send the first half and close."""
        body = serialise(message)
        wire.send_unsized(body[: len(body) // 2])


@dataclass(frozen=True)
class MislabelledReply:
    """Send a valid reply with a wrong content type."""

    reply: Reply
    kind: str = "text/plain"
    status: int | None = 200

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Send it."""
        wire.send(200, serialise(message), kind=self.kind)


@dataclass(frozen=True)
class ConnectionReset:
    """Reset the connection instead of replying."""

    status: int | None = None
    reply: Reply | None = None

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Reset it."""
        wire.reset()


@dataclass(frozen=True)
class Hang:
    """Send nothing until the gate opens, then close the connection; for a late reply use `Reply.gate`."""

    gate: Gate = field(default_factory=Gate)
    status: int | None = None
    reply: Reply | None = None

    def play(self, wire: Wire, message: Message, *, stream: bool) -> None:
        """Wait and close."""
        self.gate.reached.set()
        wire.hold(self.gate.opened)
        wire.drop()


def html(status: int = 200) -> Raw:
    """Build the page of an intercepting proxy."""
    return Raw(status, b"<!doctype html><title>Sign in</title><p>Welcome to the hotel.", kind="text/html")


def json_value(value: object, status: int = 200) -> Raw:
    """Build a response of any JSON, such as `{}` or a list."""
    return Raw(status, serialise(value))


def no_json(status: int = 400) -> Raw:
    """Build an error that is no JSON although it says so."""
    return Raw(status, b"upstream connect error or disconnect")


def not_events() -> Raw:
    """Build a stream that holds no events."""
    return Raw(200, b"data: this is not JSON\n\nevent: message_start\ndata: {\n\n", kind=EVENTS)


def invalid(message: str) -> ApiError:
    """Build a 400 with a message of your own."""
    return ApiError(400, "invalid_request_error", message)


def unauthorised() -> ApiError:
    """Build the 401 for a key that is not valid."""
    return ApiError(401, "authentication_error", "invalid x-api-key")


def not_found(what: str = "model: claude-none") -> ApiError:
    """Build a 404."""
    return ApiError(404, "not_found_error", what)


def rate_limited(retry_after: float | None = None) -> ApiError:
    """Build a 429, with the seconds to wait if they are given."""
    limited = ApiError(429, "rate_limit_error", "This request would exceed your rate limit.")
    return _after(limited, retry_after)


def overloaded(retry_after: float | None = None) -> ApiError:
    """Build a 529, with the seconds to wait if they are given."""
    return _after(ApiError(529, "overloaded_error", "Overloaded"), retry_after)


def server_error() -> ApiError:
    """Build a 500."""
    return ApiError(500, "api_error", "Internal server error")


def _after(error: ApiError, seconds: float | None) -> ApiError:
    return error if seconds is None else replace(error, headers={"retry-after": f"{seconds:g}"})
