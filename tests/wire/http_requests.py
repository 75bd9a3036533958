"""An MCP server over HTTP in this process, and requests to it."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import httpx2

from run_specialist.api.runner import Runner
from run_specialist.mcp_server.http import Address, Http
from run_specialist.mcp_server.server import Service, make_server
from tests.scripted_provider import ScriptedProvider
from tests.wire.serving import PATIENCE
from tests.wire.stdio_client import HELLO

ACCEPT = {"accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": "p",
}


@asynccontextmanager
async def serving(script=(), *, tools=(), store="none", host="127.0.0.1", token=None):
    """Run a server with a scripted model on a free port."""
    async with Runner(provider=ScriptedProvider(script), tools=tools, store=store) as runner:
        service = Service(runner, print)
        http = Http(Address(host, 0), token)
        ready = asyncio.Event()
        serving = asyncio.create_task(http.serve(make_server(service), lambda _: ready.set()))
        try:
            await asyncio.wait_for(ready.wait(), PATIENCE)
            place = httpx2.URL(http.url)
            served = SimpleNamespace(url=http.url, runs=service.runs, place=(place.host, place.port), writers=[])
            yield served
            for writer in served.writers:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        finally:
            await service.close(PATIENCE)
            http.stop()
            await asyncio.wait_for(serving, PATIENCE)


def asks(method="tools/call", **params) -> dict:
    """Return a request of the newer protocol, which needs no session."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}


async def post(url: str, body: object, **headers: str) -> httpx2.Response:
    """Send a request with the headers of the newer protocol, and with these."""
    given = {
        "content-type": "application/json",
        **ACCEPT,
        "mcp-protocol-version": MODERN,
        **({"mcp-method": body["method"]} if isinstance(body, dict) else {}),
        **({"mcp-name": body["params"]["name"]} if isinstance(body, dict) and "name" in body["params"] else {}),
        **headers,
    }
    content = json.dumps(body) if isinstance(body, dict) else body
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        return await client.post(url, content=content, headers=given)


async def begins(client: httpx2.AsyncClient, url: str) -> httpx2.Response:
    """Start a session of the older protocol."""
    return await client.post(url, headers=ACCEPT, json=HELLO)
