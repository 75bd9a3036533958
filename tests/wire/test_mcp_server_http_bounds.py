"""Bounds of an MCP server over HTTP: the size of a body, and the number and age of sessions."""

import asyncio

import httpx2
import pytest

from run_specialist.mcp_server.http import LONGEST_BODY, ServerLimits
from tests.wire.http_requests import ACCEPT, asks, begins, post, serving
from tests.wire.serving import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("looker")]


async def lists(client: httpx2.AsyncClient, url: str, session: str) -> httpx2.Response:
    """Request the list of tools in a session of the older protocol."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return await client.post(url, headers={**ACCEPT, "mcp-session-id": session}, json=body)


async def test_a_body_is_bounded():
    """A body over the size limit is refused before it is parsed as JSON."""
    async with serving() as served:
        refused = await post(served.url, b"x" * (LONGEST_BODY + 1))
        broken = await post(served.url, b"{", **{"mcp-method": "ping"})
        assert (await post(served.url, asks("tools/list"))).status_code == 200
    assert refused.status_code == 413
    assert broken.status_code == 400


async def test_an_idle_session_expires():
    """An idle session expires and its tasks end; a later request gets a 404 and can begin a new session."""
    async with serving(bounds=ServerLimits(idle=0.05)) as served:
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            # The library keeps one task from the very first reply.
            await begins(client, served.url)
            before = asyncio.all_tasks()
            session = (await begins(client, served.url)).headers["mcp-session-id"]
        _, at_work = await asyncio.wait(asyncio.all_tasks() - before, timeout=PATIENCE)
        assert not at_work
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            gone = await lists(client, served.url, session)
            another = (await begins(client, served.url)).headers["mcp-session-id"]
    assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
    assert another != session


async def test_at_the_limit_a_new_session_replaces_the_longest_idle():
    """At the session limit, a new session replaces the one that has been idle longest.

    The client of the ended session gets a 404, its tasks end, and the other sessions continue.
    """
    async with serving(bounds=ServerLimits(sessions=2)) as served, httpx2.AsyncClient(timeout=PATIENCE) as client:
        first, second = [(await begins(client, served.url)).headers["mcp-session-id"] for _ in range(2)]
        assert "looker" in (await lists(client, served.url, first)).text
        third = await begins(client, served.url)
        gone = await lists(client, served.url, second)
        assert (third.status_code, gone.status_code) == (200, 404)
        for session in (first, third.headers["mcp-session-id"]):
            assert "looker" in (await lists(client, served.url, session)).text
        before = asyncio.all_tasks()
        for _ in range(20):
            assert (await begins(client, served.url)).status_code == 200
        assert len(asyncio.all_tasks()) < len(before) + 10
