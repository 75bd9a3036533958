"""Limit the number of sessions, which older protocol versions have: the longest idle session ends first."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "mcp-session-id"
_OK, _NOT_FOUND = 200, 404


class SessionLimit:
    """ASGI middleware that tracks the sessions of an MCP application by their header, and ends idle ones by DELETE."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        """Wrap an application.

        most: maximum number of sessions; exceeded only while all sessions have active requests.
        """
        self._app = app
        self._most = most
        self._requests: dict[str, int] = {}
        """Number of active requests by session, least recently used session first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; if it starts a session beyond the limit, end an idle one."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER)
        session = given if given in self._requests else None
        self._count(session, 1)

        async def watch(message: Message) -> None:
            nonlocal session
            if message["type"] == "http.response.start":
                created = Headers(raw=message["headers"]).get(HEADER)
                if given is None and created is not None and message["status"] == _OK:
                    session = created
                    self._requests[created] = 1
                    await self._end_idle(scope)
                elif message["status"] == _NOT_FOUND or (scope["method"] == "DELETE" and message["status"] == _OK):
                    self._requests.pop(session or "", None)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            self._count(session, -1)

    def _count(self, session: str | None, more: int) -> None:
        if session is not None and session in self._requests:
            self._requests[session] = self._requests.pop(session) + more

    async def _end_idle(self, scope: Scope) -> None:
        excess = len(self._requests) - self._most
        for session in [one for one, requests in self._requests.items() if not requests][: max(excess, 0)]:
            del self._requests[session]
            headers = [(b"host", b"localhost"), (HEADER.encode(), session.encode())]
            await self._app({**scope, "method": "DELETE", "headers": headers}, _no_body, _ignore)


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore(_: Message) -> None:
    """Discard a response message."""
