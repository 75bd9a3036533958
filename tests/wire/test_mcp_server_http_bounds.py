"""Bounds of an MCP server over HTTP: slow, numerous and refused clients, the size of a body, the age of sessions."""

import asyncio
import json

import httpx2
import pytest

from run_specialist.mcp_server import http
from run_specialist.tools.base import Tool
from tests.scripted_provider import calls, says
from tests.wire.http_requests import ACCEPT, asks, begins, post, serving
from tests.wire.serving import PATIENCE, BlockingTool, write_specialist
from tests.wire.stdio_client import HELLO

TOKEN = "a-token-of-a-test"  # noqa: S105 - token of a server that exists for one test only
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\n"
)
KNOWN = f"{HEAD}Authorization: Bearer {TOKEN}\r\n"
CALL = asks(name="looker", arguments={"query": "?"})


@pytest.fixture(autouse=True)
def project(project):
    """The project with one specialist, the only one that is found."""
    write_specialist(project, "looker", "tools: []")
    return project


async def opened(served, text=""):
    """Open a connection and send a text."""
    reader, writer = await asyncio.open_connection(*served.place)
    served.writers.append(writer)
    writer.write(text.encode())
    return reader, writer


async def rest(reader) -> str:
    """Return everything that the server sends until it closes the connection."""
    async with asyncio.timeout(PATIENCE):
        return (await reader.read()).decode()


async def listed(served) -> int:
    """Request the list of tools as a well-behaved client, and return the status."""
    return (await ask(served, asks("tools/list"))).status_code


async def ask(served, body=CALL) -> httpx2.Response:
    """Send a request with the token, by default a call of the specialist."""
    return await post(served.url, body, authorization=f"Bearer {TOKEN}")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("sent", "drip"),
    [
        ("", ""),
        ("", "x"),
        (f"{HEAD}X: ", "x"),
        (f"{KNOWN}Content-Length: 999999\r\n\r\n", " "),
        (f"{KNOWN}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n", ""),
    ],
    ids=["nothing", "request line", "header", "body", "chunk"],
)
async def test_an_incomplete_request_is_closed(monkeypatch, sent, drip):
    """A request that does not arrive in time is closed, even if each byte is in time; others are served meanwhile."""
    monkeypatch.setattr(http, "CLIENT_TIMEOUT", 0.4)
    async with serving(token=TOKEN) as served:
        reader, writer = await opened(served, sent)
        reading = asyncio.ensure_future(reader.read())
        assert await listed(served) == 200
        async with asyncio.timeout(PATIENCE):
            while not reading.done():
                writer.write(drip.encode())
                await asyncio.wait([reading], timeout=0.02)
        assert isinstance(reading.exception(), ConnectionError) or not reading.result()


@pytest.mark.exhaustive
async def test_tool_calls_and_event_streams_outlast_the_time_limit(monkeypatch):
    """Calls and streams may last; connections that send nothing are closed meanwhile."""
    monkeypatch.setattr(http, "CLIENT_TIMEOUT", 0.4)
    held = BlockingTool()
    body = json.dumps(HELLO)
    async with serving([calls(("hold", {})), says("Here.")], tools=[held.tool], token=TOKEN) as served:
        reader, _ = await opened(served, f"{KNOWN}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}")
        headers = dict(line.split(": ", 1) for line in (await rest(reader)).split("\r\n") if ": " in line)
        stream, writer = await opened(served, f"GET{KNOWN[4:]}Mcp-Session-Id: {headers['mcp-session-id']}\r\n\r\n")
        assert "200" in (await stream.readline()).decode()
        streaming = asyncio.ensure_future(rest(stream))
        asking = asyncio.ensure_future(ask(served))
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        later, _ = await opened(served)
        assert await rest(later) == ""
        assert not streaming.done()
        assert not asking.done()
        held.released.set()
        assert '"Here."' in (await asyncio.wait_for(asking, PATIENCE)).text
        writer.close()
        streaming.cancel()


async def test_at_the_limit_a_new_connection_replaces_the_longest_waiting(monkeypatch):
    """At the connection limit, a client is served in place of the connection that has waited longest."""
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 8)
    async with serving(token=TOKEN) as served:
        idle = [await opened(served, "POST" if number % 2 else "") for number in range(8)]
        assert await listed(served) == 200
        assert await rest(idle[0][0]) == ""
        for _ in range(20):
            await opened(served)
        assert await listed(served) == 200


async def test_active_requests_are_not_replaced(monkeypatch):
    """If all connections are answered, a new one is closed, and the answers arrive."""
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 2)
    script = [calls(("hold", {}))] * 2 + [says("Here.")] * 2
    entered, released = asyncio.Semaphore(0), asyncio.Event()

    async def hold() -> str:
        entered.release()
        await released.wait()
        return "let go"

    async with serving(script, tools=[Tool("hold", "Waits.", hold)], token=TOKEN) as served:
        asking = [asyncio.ensure_future(ask(served)) for _ in range(2)]
        for _ in asking:
            await asyncio.wait_for(entered.acquire(), PATIENCE)
        with pytest.raises(httpx2.TransportError):
            await listed(served)
        released.set()
        assert [answer.status_code for answer in await asyncio.gather(*asking)] == [200] * 2
        assert await listed(served) == 200


async def test_a_client_without_the_token_gets_the_refusal_and_is_closed():
    """The refusal is sent without reading the body, and no further request is served over the connection."""
    async with serving(token=TOKEN) as served:
        reader, _ = await opened(served, f"{HEAD}Content-Length: 9999999\r\n\r\n")
        answer = await rest(reader)
    assert answer.startswith("HTTP/1.1 401 ")
    assert answer.lower().count("\r\nconnection: close\r\n") == 1
    assert answer.endswith("the header `Authorization: Bearer TOKEN` with the token of this server is required\n")


async def test_a_body_is_bounded():
    """A body over the size limit is refused before it is parsed as JSON; headers are limited too."""
    async with serving() as served:
        refused = await post(served.url, b"x" * (http.LONGEST_BODY + 1))
        broken = await post(served.url, b"{", **{"mcp-method": "ping"})
        assert (await post(served.url, asks("tools/list"))).status_code == 200
        with pytest.raises(httpx2.TransportError):
            (await post(served.url, asks("tools/list"), x="x" * 1_000_000)).raise_for_status()
    assert refused.status_code == 413
    assert broken.status_code == 400


@pytest.mark.exhaustive
async def test_sessions_expire_and_are_bounded(monkeypatch):
    """An idle session ends, and a later request gets a 404; beyond the limit a new session gets a 503."""
    monkeypatch.setattr(http, "IDLE", 1.0)
    monkeypatch.setattr(http, "MOST_SESSIONS", 2)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with serving() as served, httpx2.AsyncClient(timeout=PATIENCE) as client:
        begun = [await begins(client, served.url) for _ in range(3)]
        assert [one.status_code for one in begun] == [200, 200, 503]
        headers = {**ACCEPT, "mcp-session-id": begun[0].headers["mcp-session-id"]}
        assert "looker" in (await client.post(served.url, headers=headers, json=body)).text
        await asyncio.sleep(1.6)
        gone = await client.post(served.url, headers=headers, json=body)
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
        assert (await begins(client, served.url)).status_code == 200
