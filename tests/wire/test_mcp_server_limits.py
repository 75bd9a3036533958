"""The HTTP server with clients that send half a request, send slowly, do not read, or open too many connections."""

import asyncio
import json
import select
import socket
from contextlib import suppress

import pytest

from run_specialist.mcp_server.http import READ_SIZE, HttpConnection, TimeLimits
from run_specialist.providers.scripted import calls, says
from tests.wire.raw_http import HEAD, KNOWN, ask, list_request, opened, rest, serves, serving, tool_call
from tests.wire.serving import PATIENCE, BlockingTool, write_specialist

pytestmark = pytest.mark.anyio
SHORT = TimeLimits(head=0.05, body=0.05, unread=0.05, close=0.05)
"""Limits for clients that exceed all of them; too short for a regular client on a busy machine."""
LONGER = TimeLimits(head=0.5, body=0.5, unread=0.5, close=0.05)
"""Limits for servers that also have regular clients."""


@pytest.fixture(autouse=True)
def project(project):
    """The project with one specialist."""
    write_specialist(project, "looker", "tools: []")
    return project


@pytest.mark.exhaustive(one_in=3)
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
async def test_an_incomplete_request_gets_a_408(sent, part):
    """An incomplete request gets a 408 that names the part and the limit, and the connection is closed."""
    async with serving(times=SHORT) as served:
        reader, writer = await opened(served, sent)
        answer = (await rest(reader)).removeprefix("HTTP/1.1 100 Continue\r\n\r\n")
        writer.close()
        assert await serves(served)
    assert answer.startswith("HTTP/1.1 408 ")
    assert answer.endswith(f"\r\n\r\nthe {part} of a request may take 0.05 seconds; this one took longer\n")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("sent", "drip"),
    [("", "x"), (f"{HEAD}X: ", "x"), (HEAD, "A: b\r\n"), (f"{KNOWN}Content-Length: 999999\r\n\r\n", " ")],
    ids=["request line", "header", "headers", "body"],
)
async def test_a_request_sent_byte_by_byte_gets_a_408(sent, drip):
    """A request that arrives byte by byte gets a 408: each byte is in time, but the part as a unit is not."""
    async with serving(times=SHORT) as served:
        reader, writer = await opened(served, sent)
        reading = asyncio.ensure_future(rest(reader))
        while not reading.done():
            writer.write(drip.encode())
            await asyncio.wait([reading], timeout=0.01)
        writer.close()
        assert (await reading).startswith("HTTP/1.1 408 ")


async def test_a_connection_without_a_request_is_closed_without_an_answer():
    """An idle connection is closed without an answer.

    A browser that connects ahead of need would take such an answer for the reply to its next request.
    """
    async with serving(times=SHORT) as served:
        reader, writer = await opened(served)
        assert await rest(reader) == ""
        writer.close()


async def test_a_client_that_drips_between_two_requests_is_closed():
    """The time limit for the next request head counts from the last answer."""
    async with serving(times=LONGER) as served:
        reader, writer = await opened(served, f"GET /other HTTP/1.1\r\nHost: localhost\r\n{KNOWN[len(HEAD) :]}\r\n")
        assert "404" in (await reader.readline()).decode()
        reading = asyncio.ensure_future(rest(reader))
        while not reading.done():
            writer.write(b"x")
            await asyncio.wait([reading], timeout=0.01)
        writer.close()
        assert "HTTP/1.1 408 " in await reading


async def test_tool_calls_and_event_streams_outlast_every_time_limit():
    """Tool calls and event streams outlast every limit; later connections time out repeatedly meanwhile."""
    held = BlockingTool()
    began = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": began})
    async with serving([calls(("hold", {})), says("Here.")], tools=[held.tool], times=LONGER) as served:
        reader, writer = await opened(served, f"{KNOWN}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}")
        headers = dict(line.split(": ", 1) for line in (await rest(reader)).split("\r\n") if ": " in line)
        writer.close()
        session = f"Mcp-Session-Id: {headers['mcp-session-id']}\r\n"
        stream, writer = await opened(served, f"GET{KNOWN[4:]}{session}\r\n")
        assert "200" in (await stream.readline()).decode()
        streaming = asyncio.ensure_future(rest(stream))
        asking = asyncio.ensure_future(ask(served, tool_call()))
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        for _ in range(2):
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


@pytest.mark.exhaustive
async def test_a_client_that_reads_no_answers_is_reset():
    """A client that requests long lists and reads no answer is reset, and nothing is kept for it."""
    async with serving(times=TimeLimits(unread=0.05)) as served:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(served.place)
            client.setblocking(False)
            watch = select.poll()
            watch.register(client, 0)
            unsent = b""
            async with asyncio.timeout(PATIENCE):
                # poll() reports only errors and hang-ups here: an event means that the connection is closed.
                while not watch.poll(0):
                    unsent = unsent or list_request() * 100
                    with suppress(OSError):
                        unsent = unsent[client.send(unsent) :]
                    await asyncio.sleep(0)


@pytest.mark.parametrize("count", [1, 5])
async def test_a_slow_reader_gets_all_its_answers(count):
    """A client gets all its answers even if it begins to read long after the time limit for its next head."""
    async with serving(times=TimeLimits(head=0.05)) as served:
        # The answer does not fit into the operating system's buffers.
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


@pytest.mark.parametrize(
    "sent", [f"{HEAD}Content-Length: 9999999\r\n\r\n", f"{HEAD}Transfer-Encoding: chunked\r\n\r\n"]
)
async def test_a_client_without_the_token_gets_the_refusal_and_is_closed(sent):
    """A client without the token receives the refusal and is then closed, even while it is still sending.

    The connection is not reset, no body is read, and no further request is served over it.
    """
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
    assert answer.endswith("the header `Authorization: Bearer TOKEN` with the token of this server is required\n")


async def test_input_is_parsed_in_small_pieces():
    """Input is parsed in small pieces, so that one-byte chunks do not block other clients.

    Such chunks cost more to parse than to send.
    """
    assert READ_SIZE == 16_384
    async with serving() as served:
        reader, writer = await opened(served, KNOWN)
        assert issubclass(HttpConnection, asyncio.BufferedProtocol)
        writer.write(f"X: {'x' * 4 * READ_SIZE}\r\n\r\n".encode())
        assert (await rest(reader)).startswith("HTTP/1.1 400 ")
        writer.close()
