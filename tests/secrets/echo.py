"""A server that repeats the key it received in its answer, in various formats."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.wire.mcp_servers.web import Raw, raw_web

JSON, TEXT, EVENTS = "application/json", "text/plain", "text/event-stream"


def _error(words: str) -> bytes:
    return json.dumps({"error": {"type": "api_error", "message": words}}).encode()


def _event(words: str) -> bytes:
    return b"event: error\ndata: " + _error(words) + b"\n\n"


SHAPES: dict[str, tuple[int, str, Callable[[str], bytes]]] = {
    "message": (401, JSON, lambda told: _error(f"no such key: {told}")),
    "odd": (400, JSON, lambda told: json.dumps({"fault": {"headers": told}}).encode()),
    "cut at 200": (400, JSON, lambda told: json.dumps({"fault": {"x": "y" * 150, "headers": told}}).encode()),
    "cut at 600": (403, JSON, lambda told: _error(f"{'so ' * 190}{told}")),
    "text": (401, TEXT, lambda told: f"who is {told}?".encode()),
    "no JSON": (200, JSON, lambda told: f"{{{told}".encode()),
    "no message": (200, JSON, lambda told: json.dumps({"type": told, "stop_reason": told, "choices": told}).encode()),
    "page": (200, "text/html", lambda told: f"<p>{told}</p>".encode()),
    "kind": (200, "", lambda told: f"{told}".encode()),
    "event": (200, EVENTS, _event),
    "cut event": (200, EVENTS, lambda told: _event(f"{'so ' * 190}{told}")),
}
"""Status, content type, and a function from the keys received to the body."""


class Echo(BaseHTTPRequestHandler):
    """Answers in the current format of the server."""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        """Answer with the keys received, in the current format."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status, kind, body = SHAPES[self.server.shape]
        sent = (value for name, value in self.headers.items() if name.lower() in {"authorization", "x-api-key"})
        told = " ".join(value.removeprefix("Bearer ") for value in sent)
        self.server.heard.append(told)
        said = body(told)
        self.send_response(status)
        for name, value in (("content-type", kind or told), ("content-length", str(len(said))), ("x-request-id", told)):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said)


class EchoOfTools(Raw):
    """An MCP server whose tool returns the request headers, in a result or in an error."""

    def spoken(self, how: str, asked: dict[str, Any]) -> None:
        """Answer with the headers: as a result, as an error, or as an error of another request than the call."""
        told = " ".join(f"{name}: {value}" for name, value in self.headers.items())
        if asked["method"] == {"lists": "tools/list", "begins": "initialize"}.get(how, "tools/call"):
            error = {"code": -32000, "message": f"{'so ' * 80}{told}" if how == "long" else told}
            result = {"content": [{"type": "text", "text": told}]}
            answer = {"result": result} if how == "tells" else {"error": error}
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}).encode()
            self.answer(200, JSON, body)
        else:
            super().spoken(how, asked)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[Any]:
    """Run a server; it has `url`, `heard` (keys received), and `shape`, which may be set to another format."""
    with raw_web(handler) as server:
        server.heard, server.shape = [], "message"
        yield server
