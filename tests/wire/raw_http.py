"""An HTTP server inside this process, and clients that write the bytes of their requests themselves."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from types import SimpleNamespace

import httpx2

from run_specialist.api.runner import Runner
from run_specialist.mcp_server.http import Address, Http, ServerLimits
from run_specialist.mcp_server.server import Service, make_server
from run_specialist.providers.scripted import ScriptedProvider
from tests.wire.serving import PATIENCE

TOKEN = "a-token-of-a-test"  # noqa: S105 - token of a server that exists for one test only
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\n"
)
KNOWN = f"{HEAD}Authorization: Bearer {TOKEN}\r\n"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@asynccontextmanager
async def serving(script=(), *, tools=(), **bounds):
    """Run a server with these limits; yield its address, its URL and its messages."""
    said = []
    async with Runner(provider=ScriptedProvider(script), tools=tools, store="none") as runner:
        service = Service(runner, said.append)
        http = Http(Address("127.0.0.1", 0), TOKEN, said.append, ServerLimits(**bounds))
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
    """Return everything that the server sends until it closes the connection."""
    async with asyncio.timeout(PATIENCE):
        return (await reader.read()).decode()


async def listed(served) -> int:
    """Request the list of tools as a well-behaved client, and return the status."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    return (await ask(served, body)).status_code


async def serves(served) -> bool:
    """Request the list of tools until it succeeds, because short limits can refuse even a regular client."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(httpx2.HTTPError):
                if await listed(served) == HTTPStatus.OK:
                    return True


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


def list_request() -> bytes:
    """Return a request for the list of tools, whose answer is long."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
    modern = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"
    return f"{KNOWN}{modern}Content-Length: {len(body)}\r\n\r\n{body}".encode()
