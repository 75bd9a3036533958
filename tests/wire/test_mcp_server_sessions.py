"""Sessions of the older protocol over HTTP: a new session replaces the one that has been idle longest."""

import asyncio

import pytest

from run_specialist.mcp_server.http import SessionLimit

pytestmark = pytest.mark.anyio


class Library:
    """An application that keeps sessions by id, as the MCP library does."""

    def __init__(self) -> None:
        self.known: list[str] = []
        self.begun = 0
        self.held = asyncio.Event()
        self.entered = asyncio.Event()

    async def __call__(self, scope, receive, send) -> None:
        """Answer one request."""
        given = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        status, headers = 200, []
        if scope["type"] != "http":
            return
        if not given:
            self.begun += 1
            given = f"s{self.begun}"
            self.known.append(given)
            headers = [(b"mcp-session-id", given.encode())]
        elif given not in self.known:
            status = 404
        elif scope["method"] == "DELETE":
            self.known.remove(given)
        elif scope["method"] == "GET":
            self.entered.set()
            await self.held.wait()
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


async def ask(app, session: str = "", method: str = "POST") -> int:
    """Send a request and return the status of its answer."""
    statuses = []

    async def send(message) -> None:
        statuses.append(message.get("status"))

    headers = [(b"mcp-session-id", session.encode())] if session else []
    await app({"type": "http", "method": method, "headers": headers, "path": "/mcp"}, None, send)
    return statuses[0]


async def test_the_most_recently_used_session_is_kept():
    """A session with a recent request stays; the one without is ended."""
    library = Library()
    app = SessionLimit(library, 3)
    for _ in range(3):
        await ask(app)
    await ask(app, "s1")
    await ask(app)
    assert library.known == ["s1", "s3", "s4"]
    assert await ask(app, "s2") == 404
    await ask(app)
    assert library.known == ["s1", "s4", "s5"]


async def test_a_session_with_an_open_request_is_never_ended():
    """A session with an open stream or a call is never ended; afterwards it is the most recently used one."""
    library = Library()
    app = SessionLimit(library, 2)
    await ask(app)
    stream = asyncio.ensure_future(ask(app, "s1", "GET"))
    await library.entered.wait()
    for _ in range(5):
        await ask(app)
    assert library.known == ["s1", "s6"]
    library.held.set()
    await stream
    await ask(app)
    assert library.known == ["s1", "s7"]


async def test_sessions_with_open_requests_may_exceed_the_limit():
    """Sessions with open requests stay even above the limit; their clients end them later."""
    library = Library()
    app = SessionLimit(library, 1)
    await ask(app)
    streams = [asyncio.ensure_future(ask(app, "s1", "GET"))]
    await library.entered.wait()
    await ask(app)
    assert library.known == ["s1", "s2"]
    library.held.set()
    await asyncio.gather(*streams)
    assert await ask(app, "s2", "DELETE") == 200
    assert library.known == ["s1"]


async def test_ended_sessions_do_not_count():
    """A session ended by its client or by the library no longer counts, so no other one is ended in its place."""
    library = Library()
    app = SessionLimit(library, 2)
    await ask(app)
    await ask(app)
    assert await ask(app, "s1", "DELETE") == 200
    await ask(app)
    assert library.known == ["s2", "s3"]
    library.known.remove("s2")
    assert await ask(app, "s2") == 404
    await ask(app)
    assert library.known == ["s3", "s4"]


async def test_events_other_than_http_are_passed_on():
    """Events other than HTTP, such as the application's lifespan, are passed on."""
    seen = []

    async def app(scope, receive, send) -> None:
        seen.append(scope["type"])

    await SessionLimit(app, 1)({"type": "lifespan"}, None, None)
    assert seen == ["lifespan"]
