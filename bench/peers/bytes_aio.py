"""The floor: aiohttp posts the bytes of a transcript that only grows; no SDK, no checks, no budget."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.given import MAX_TOKENS, MODEL, PATIENCE, SYSTEM, Child, Conditions
from bench.peers.bare import CACHED, TOOLS


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a session for the lap."""
    import aiohttp  # noqa: PLC0415 - part of what is measured

    system = [{"type": "text", "text": SYSTEM, **CACHED}]
    top = {"model": MODEL, "max_tokens": MAX_TOKENS, "system": system, "tools": TOOLS, **CACHED}
    front = _encoded(top)[:-1] + b',"messages":['
    headers = {"x-api-key": "none", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    timeout, connector = aiohttp.ClientTimeout(PATIENCE), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(conditions.url, connector=connector, timeout=timeout, headers=headers) as session:

        async def child(question: str) -> str:
            transcript = _encoded({"role": "user", "content": question})
            while True:
                async with session.post("/v1/messages", data=b"".join((front, transcript, b"]}"))) as response:
                    content: list[dict[str, Any]] = json.loads(await response.read())["content"]
                results = [
                    {"type": "tool_result", "tool_use_id": block["id"], "content": conditions.search()}
                    for block in content
                    if block["type"] == "tool_use"
                ]
                if not results:
                    return "".join(block["text"] for block in content if block["type"] == "text")
                turn = ({"role": "assistant", "content": content}, {"role": "user", "content": results})
                transcript = b",".join((transcript, *map(_encoded, turn)))

        yield child
