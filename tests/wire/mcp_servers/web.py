"""MCP servers over HTTP: the well-behaved one in its own process, and a raw one whose behaviour the path selects."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.forked_program import ForkedProgram
from tests.wire.mcp_servers.running_servers import script

TOOLS = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}


@contextmanager
def good_web() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the well-behaved server; yield its URL and its process."""
    process = ForkedProgram(script("good", "web"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
    finally:
        process.kill()
        process.communicate()


class Raw(BaseHTTPRequestHandler):
    """A handler whose reply the path selects."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        """Answer one POST request."""
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self.server.seen.append((self.headers, asked))
        how = self.path.strip("/").split("?")[0]
        if how.isdecimal():
            self.answer(int(how), "text/plain", b"no")
        elif how == "hang":
            self.server.closing.wait()
            self.close_connection = True
        elif how == "html":
            self.answer(200, "text/html", b"<html>Sign in</html>")
        elif how == "json":
            self.answer(200, "application/json", b"{nonsense")
        elif how == "huge":
            self.answer(200, "application/json", b" " * 11_000_000)
        elif how == "gzip":
            self.answer(200, "application/json", b"x", ("content-encoding", "gzip"))
        elif "id" not in asked:
            self.answer(202, "text/plain", b"")
        else:
            self.spoken(how, asked)

    def do_GET(self) -> None:
        """Refuse the stream of server messages."""
        self.answer(405, "text/plain", b"")

    def do_DELETE(self) -> None:
        """Refuse to end a session."""
        self.do_GET()

    def spoken(self, how: str, asked: dict[str, Any]) -> None:
        """Answer by the protocol; `forgets` loses the session at the first call, `forgetful` at every call."""
        method, answer, header = asked["method"], {}, ()
        if method == "initialize":
            info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
            answer = {"result": {"protocolVersion": asked["params"]["protocolVersion"], **info}}
            header = ("mcp-session-id", str(time.monotonic_ns()))
        elif method == "tools/list":
            answer = {"result": {"tools": [*TOOLS["tools"], *([{"name": "torn"}] if how == "worn" else [])]}}
        elif method == "tools/call":
            self.server.called += 1
            if how == "forgetful" or (how == "forgets" and self.server.called == 1):
                self.answer(404, "text/plain", b"gone")
                return
            text = "x" * 5_000_000 if how == "events" else "seen"
            answer = {"result": {"content": [{"type": "text", "text": text}]}}
        else:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}).encode()
        kind = "application/json"
        if how == "events":
            kind, body = "text/event-stream", b"event: message\ndata: " + body + b"\n\n"
        self.answer(200, kind, body, *([header] if header else []))

    def answer(self, status: int, kind: str, body: bytes, *headers: tuple[str, str]) -> None:
        """Send a response, and ignore that the client may have disconnected."""
        self.send_response(status)
        for name, value in [("content-type", kind), ("content-length", str(len(body))), *headers]:
            self.send_header(name, value)
        try:
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


class Quiet(ThreadingHTTPServer):
    """A server that logs no errors when clients disconnect."""

    def handle_error(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def raw_web(handler: type[BaseHTTPRequestHandler] = Raw) -> Iterator[Any]:
    """Start the server; it has `seen` (headers and bodies received) and `url`."""
    server: Any = Quiet(("127.0.0.1", 0), handler)
    server.seen, server.called, server.closing = [], 0, threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
