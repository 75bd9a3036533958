"""JSON-RPC messages on the standard output of an MCP server, one per line."""

import asyncio
import json
from typing import TYPE_CHECKING

from run_specialist.tools.mcp.surrogates import replace_lone_surrogates

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage


async def read_line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line; empty at the end of the stream.

    Raises LimitOverrunError for a line that is too long.
    """
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial


def parse(line: bytes) -> "SessionMessage | None":
    """Parse a line; an invalid response becomes an error response, and any other invalid line becomes None."""
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - slow to import
    from mcp.types import JSONRPCError, jsonrpc_message_adapter  # noqa: PLC0415 - as above

    line = replace_lone_surrogates(line)
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # It may be an invalid response, for which the request must not wait any longer.
        number = _request_id(line)
    if number is None:
        return None
    error = {"code": -32700, "message": "its answer is no valid message"}
    return SessionMessage(JSONRPCError.model_validate({"jsonrpc": "2.0", "id": number, "error": error}))


def _request_id(line: bytes) -> int | None:
    """Return the ID of the request that an invalid line responds to; None if there is none."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    number = content.get("id") if isinstance(content, dict) and "method" not in content else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None
