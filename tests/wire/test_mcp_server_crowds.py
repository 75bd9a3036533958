"""The HTTP server with more connections or requests than it serves at the same time."""

import asyncio
import json

import pytest

from run_specialist.providers.scripted import calls, says
from run_specialist.tools.base import Tool
from tests.wire.raw_http import KNOWN, META, ask, listed, opened, rest, serving, tool_call
from tests.wire.serving import PATIENCE, write_specialist

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def project(project):
    """The project with one specialist, the only one that is found."""
    write_specialist(project, "looker", "tools: []")
    return project


async def test_at_the_limit_a_new_connection_replaces_the_longest_idle():
    """At the connection limit, a new client replaces the connection that has been idle longest.

    One warning line reports the first closed connection, and one at the end the others.
    """
    async with serving(connections=8) as served:
        idle = [await opened(served, "POST" if number % 2 else "") for number in range(8)]
        assert await listed(served) == 200
        assert await rest(idle[0][0]) == ""
        idle += [await opened(served) for _ in range(20)]
        assert await rest(idle[19][0]) == ""
        assert await listed(served) == 200
        assert len(served.said) == 1
    limit = " closed or refused; the limit is 8 at the same time"
    assert [line.endswith(limit) for line in served.said] == [True] * 2
    assert served.said[0] == f"warning: 1 connection was{limit}"
    for _, writer in idle:
        writer.close()


async def test_an_authorized_connection_is_closed_last():
    """Connections without a valid token are closed before one whose authorised request is still sending its body."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
    modern = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nConnection: close\r\n"
    async with serving(connections=4) as served:
        reader, writer = await opened(
            served, f"{KNOWN}{modern}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        # From here on the server waits for the body.
        assert "100" in (await reader.readline()).decode()
        crowd = [await opened(served) for _ in range(20)]
        assert await rest(crowd[10][0]) == ""
        writer.write(body.encode())
        assert "200 OK" in await rest(reader)
        for _, other in [*crowd, (reader, writer)]:
            other.close()


async def test_too_many_requests_get_a_503():
    """Too many requests get a 503 with Retry-After and one line of text.

    The requests under way are answered, and after that new ones are served again.
    """
    entered, released = asyncio.Semaphore(0), asyncio.Event()

    async def hold() -> str:
        entered.release()
        await released.wait()
        return "let go"

    script = [calls(("hold", {}))] * 7 + [says("Here.")] * 7
    async with serving(script, tools=[Tool("hold", "Waits.", hold)], connections=8) as served:
        asking = [asyncio.ensure_future(ask(served, tool_call())) for _ in range(7)]
        for _ in asking:
            await asyncio.wait_for(entered.acquire(), PATIENCE)
        refused = await ask(served, tool_call())
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.text == "7 requests are already being served; try again\n"
        released.set()
        answers = await asyncio.gather(*asking)
        assert [answer.status_code for answer in answers] == [200] * 7
        assert await listed(served) == 200
