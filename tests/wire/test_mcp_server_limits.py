"""The HTTP server under clients that send half of a request, send slowly, do not read, or are too many."""

import asyncio
import json
import select
import socket
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import httpx2
import pytest

from run_specialist.doors.api import Runner
from run_specialist.doors.mcp.bounds import Bounds
from run_specialist.doors.mcp.connection import READ_SIZE, Connection, TimeLimits
from run_specialist.doors.mcp.http import Address, Http
from run_specialist.doors.mcp.server import make_server
from run_specialist.doors.mcp.service import Service
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from run_specialist.tools.base import Tool
from tests.wire.serving import PATIENCE, Held, write_specialist

pytestmark = pytest.mark.anyio
TOKEN = "a-token-of-a-test"  # noqa: S105 - of a server that lives for a test
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\n"
)
KNOWN = f"{HEAD}Authorization: Bearer {TOKEN}\r\n"
SHORT = TimeLimits(head=0.05, body=0.05, unread=0.05, close=0.05)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A project with one specialist, entered."""
    root = tmp_path / "project"
    for folder in (".git", "specialists"):
        (root / folder).mkdir(parents=True)
    write_specialist(root, "looker", "tools: []")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(root)


@asynccontextmanager
async def serving(script=(), *, tools=(), **bounds):
    """Serve with these bounds; gives the address, the URL and what was said."""
    said = []
    async with Runner(provider=ScriptedProvider(script), tools=tools, store="none") as runner:
        service = Service(runner, said.append)
        http = Http(Address("127.0.0.1", 0), TOKEN, said.append, Bounds(**bounds))
        ready = asyncio.Event()
        task = asyncio.create_task(http.serve(make_server(service), lambda _: ready.set()))
        try:
            await asyncio.wait_for(ready.wait(), PATIENCE)
            place = httpx2.URL(http.url)
            yield SimpleNamespace(http=http, url=http.url, place=(place.host, place.port), said=said)
        finally:
            await service.close(PATIENCE)
            http.stop()
            await asyncio.wait_for(task, PATIENCE)


async def opened(served, text=""):
    """Open a connection and send a text."""
    reader, writer = await asyncio.open_connection(*served.place)
    writer.write(text.encode())
    return reader, writer


async def rest(reader) -> str:
    """Read until the server closes the connection."""
    async with asyncio.timeout(PATIENCE):
        return (await reader.read()).decode()


async def listed(served) -> int:
    """Ask for the tools as an honest client does, and return the status."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    return (await ask(served, body)).status_code


async def ask(served, body) -> httpx2.Response:
    """Send a request of the newer protocol."""
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {TOKEN}",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": body["method"],
        **({"mcp-name": body["params"]["name"]} if "name" in body["params"] else {}),
    }
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        return await client.post(served.url, json=body, headers=headers)


def tool_call() -> dict:
    """Return a call of the specialist."""
    params = {"name": "looker", "arguments": {"query": "?"}, "_meta": META}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize(
    ("sent", "part"),
    [
        ("POST /m", "headers"),
        (HEAD, "headers"),
        (f"{KNOWN}Content-Length: 99\r\n\r\n{{", "body"),
        (f"{KNOWN}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n", "body"),
        (f"{KNOWN}Expect: 100-continue\r\nContent-Length: 99\r\n\r\n", "body"),
    ],
)
async def test_half_a_request_is_answered_when_its_time_is_over(sent, part):
    """408 with a line that names the part and the limit, and the connection is closed."""
    async with serving(times=SHORT) as served:
        reader, writer = await opened(served, sent)
        answer = (await rest(reader)).removeprefix("HTTP/1.1 100 Continue\r\n\r\n")
        writer.close()
        assert await listed(served) == 200
    assert answer.startswith("HTTP/1.1 408 ")
    assert answer.endswith(f"\r\n\r\nthe {part} of a request may take 0.05 seconds; this one took longer\n")


@pytest.mark.parametrize(
    ("sent", "drip"),
    [("", "x"), (f"{HEAD}X: ", "x"), (HEAD, "A: b\r\n"), (f"{KNOWN}Content-Length: 999999\r\n\r\n", " ")],
    ids=["request line", "header", "headers", "body"],
)
async def test_a_slow_drip_gets_no_more_time(sent, drip):
    """Each byte is in time, and the whole is not."""
    async with serving(times=SHORT) as served:
        reader, writer = await opened(served, sent)
        reading = asyncio.ensure_future(rest(reader))
        while not reading.done():
            writer.write(drip.encode())
            await asyncio.wait([reading], timeout=0.01)
        writer.close()
        assert (await reading).startswith("HTTP/1.1 408 ")


async def test_a_connection_without_a_request_is_closed_without_an_answer():
    """A browser that connects ahead of need takes an answer to no request for one to the next."""
    async with serving(times=SHORT) as served:
        reader, writer = await opened(served)
        assert await rest(reader) == ""
        writer.close()


async def test_a_client_that_drips_between_two_requests_is_closed():
    """The time for the next head counts from the last answer on."""
    async with serving(times=SHORT) as served:
        reader, writer = await opened(served, f"GET /other HTTP/1.1\r\nHost: localhost\r\n{KNOWN[len(HEAD) :]}\r\n")
        assert "404" in (await reader.readline()).decode()
        reading = asyncio.ensure_future(rest(reader))
        while not reading.done():
            writer.write(b"x")
            await asyncio.wait([reading], timeout=0.01)
        writer.close()
        assert "HTTP/1.1 408 " in await reading


async def test_a_tool_call_and_an_event_stream_may_take_as_long_as_they_do():
    """They outlast every limit: connections that came after them are over first, time and again."""
    held = Held()
    began = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": began})
    async with serving([calls(("hold", {})), says("Here.")], tools=[held.tool], times=SHORT) as served:
        reader, writer = await opened(served, f"{KNOWN}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}")
        headers = dict(line.split(": ", 1) for line in (await rest(reader)).split("\r\n") if ": " in line)
        writer.close()
        session = f"Mcp-Session-Id: {headers['mcp-session-id']}\r\n"
        stream, writer = await opened(served, f"GET{KNOWN[4:]}{session}\r\n")
        assert "200" in (await stream.readline()).decode()
        streaming = asyncio.ensure_future(rest(stream))
        asking = asyncio.ensure_future(ask(served, tool_call()))
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        for _ in range(3):
            later, other = await opened(served, HEAD)
            assert "408" in await rest(later)
            other.close()
        assert not streaming.done()
        assert not asking.done()
        held.released.set()
        assert '"Here."' in (await asyncio.wait_for(asking, PATIENCE)).text
        writer.close()
        streaming.cancel()
        await asyncio.wait([streaming])


def list_request() -> bytes:
    """Return a request for the list of tools, whose answer is long."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
    modern = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"
    return f"{KNOWN}{modern}Content-Length: {len(body)}\r\n\r\n{body}".encode()


async def test_a_client_that_does_not_read_its_answers_is_cut_off():
    """It sends requests for long lists and reads none; the connection is reset, and nothing is kept for it."""
    async with serving(times=TimeLimits(unread=0.05)) as served:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(served.place)
            client.setblocking(False)
            watch = select.poll()
            watch.register(client, 0)
            unsent = b""
            async with asyncio.timeout(PATIENCE):
                # An event that was not asked for: the connection is gone.
                while not watch.poll(0):
                    unsent = unsent or list_request() * 100
                    with suppress(OSError):
                        unsent = unsent[client.send(unsent) :]
                    await asyncio.sleep(0)


@pytest.mark.parametrize("count", [1, 5])
async def test_a_client_that_reads_slowly_gets_all_of_its_answers(count):
    """It begins to read long after the time for its next head would have been over."""
    async with serving(times=TimeLimits(head=0.05)) as served:
        # The answer does not fit into the buffers of the system.
        served.http._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(served.place)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            sending = asyncio.ensure_future(loop.sock_sendall(client, list_request() * count))
            for _ in range(5):
                later, other = await opened(served, HEAD)
                assert "408" in await rest(later)
                other.close()
            got = b""
            async with asyncio.timeout(PATIENCE):
                while got.count(b"HTTP/1.1 200 OK") < count or not got.endswith(b"}}"):
                    data = await loop.sock_recv(client, 1_000_000)
                    assert data, "closed too early"
                    got += data
                await sending


async def test_one_connection_too_many_closes_the_one_that_waits_longest():
    """Every client gets in, and what happened is told in one line and the rest at the end."""
    async with serving(connections=8) as served:
        idle = [await opened(served, "POST" if number % 2 else "") for number in range(8)]
        assert await listed(served) == 200
        assert await rest(idle[0][0]) == ""
        idle += [await opened(served) for _ in range(20)]
        assert await rest(idle[19][0]) == ""
        assert await listed(served) == 200
        assert len(served.said) == 1
    told = "8 connections are served at the same time; to make room, "
    assert [line.partition(told)[0] for line in served.said] == ["warning: "] * 2
    assert served.said[0].endswith(" 1 was closed or refused")
    for _, writer in idle:
        writer.close()


async def test_a_body_of_a_client_that_was_let_in_gives_way_last():
    """Those that have not shown a token are closed before it."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
    modern = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nConnection: close\r\n"
    async with serving(connections=4) as served:
        reader, writer = await opened(
            served, f"{KNOWN}{modern}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        # From then on its body is awaited.
        assert "100" in (await reader.readline()).decode()
        crowd = [await opened(served) for _ in range(20)]
        assert await rest(crowd[10][0]) == ""
        writer.write(body.encode())
        assert "200 OK" in await rest(reader)
        for _, other in [*crowd, (reader, writer)]:
            other.close()


async def test_more_requests_than_can_be_answered_are_refused_in_words():
    """503, when to come again, one line; those under way are answered, and then there is room."""
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
        assert refused.text == "7 requests are being answered already; try again\n"
        released.set()
        answers = await asyncio.gather(*asking)
        assert [answer.status_code for answer in answers] == [200] * 7
        assert await listed(served) == 200


@pytest.mark.parametrize(
    "sent", [f"{HEAD}Content-Length: 9999999\r\n\r\n", f"{HEAD}Transfer-Encoding: chunked\r\n\r\n"]
)
async def test_a_client_without_the_token_sees_why_and_is_closed(sent):
    """Although it is still sending: no reset, no body read, no further request over the same connection."""
    async with serving() as served:
        reader, writer = await opened(served, sent)
        reading = asyncio.ensure_future(rest(reader))
        while not reading.done():
            writer.write(b"1\r\nx\r\n" * 5000)
            await asyncio.wait([reading], timeout=0.01)
        answer = await reading
        writer.close()
    assert answer.startswith("HTTP/1.1 401 ")
    assert answer.lower().count("\r\nconnection: close\r\n") == 1
    assert answer.endswith("wanted the header `Authorization: Bearer TOKEN`, with the token of this server\n")


async def test_little_is_parsed_at_a_time():
    """Chunks of one byte cost more to parse than to send; between two reads others are served."""
    assert READ_SIZE == 16_384
    async with serving() as served:
        reader, writer = await opened(served, KNOWN)
        assert issubclass(Connection, asyncio.BufferedProtocol)
        writer.write(f"X: {'x' * 4 * READ_SIZE}\r\n\r\n".encode())
        assert (await rest(reader)).startswith("HTTP/1.1 400 ")
        writer.close()
