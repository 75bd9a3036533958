"""An HTTP server inside this process, and clients that write the bytes of their requests themselves."""

import asyncio
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import httpx2

from run_specialist.api.runner import Runner
from run_specialist.mcp_server.http import Address, Http
from run_specialist.mcp_server.server import Service, make_server
from tests.scripted_provider import ScriptedProvider
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
async def serving(script=(), *, tools=()):
    """Run a server; yield its address and its URL."""
    async with Runner(provider=ScriptedProvider(script), tools=tools, store="none") as runner:
        service = Service(runner, print)
        http = Http(Address("127.0.0.1", 0), TOKEN)
        ready = asyncio.Event()
        task = asyncio.create_task(http.serve(make_server(service), lambda _: ready.set()))
        try:
            await asyncio.wait_for(ready.wait(), PATIENCE)
            place = httpx2.URL(http.url)
            served = SimpleNamespace(http=http, url=http.url, place=(place.host, place.port), writers=[])
            yield served
            for writer in served.writers:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

        finally:
            await service.close(PATIENCE)
            http.stop()
            await asyncio.wait_for(task, PATIENCE)


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
