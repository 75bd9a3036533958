"""Connections to the MCP servers of a runner, and their tools."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.specialist.problems import shown
from run_specialist.tools.base import Tool
from run_specialist.tools.mcp.connection import McpConnection
from run_specialist.tools.mcp.definition import Definition, definitions, tool_name
from run_specialist.tools.mcp.server_errors import Unreachable
from run_specialist.tools.mcp.session import Listing
from run_specialist.tools.threads import in_thread


class McpClients:
    """MCP servers that a runner's specialists use; each is started by the first run that names it."""

    def __init__(self) -> None:
        """Create the collection without starting any server."""
        self._connections: dict[tuple[ServerConfig, Path], McpConnection] = {}

    async def tools(
        self, servers: Mapping[str, ServerConfig], *, root: Path
    ) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        """Return the tools of some servers, and warnings; a server that fails loses only its own tools.

        The servers start concurrently and run until `aclose`.
        root: working folder of their processes.
        """
        found = await asyncio.gather(*(self._list_tools(server, root) for server in servers.values()))
        made: tuple[tuple[Tool, ...], tuple[str, ...]] = await in_thread(lambda: _make_tools(found))
        return made

    async def aclose(self) -> None:
        """Close all connections and stop their processes."""
        connections = list(self._connections.values())
        self._connections.clear()
        await asyncio.gather(*(connection.close() for connection in connections))

    async def _list_tools(self, server: ServerConfig, root: Path) -> tuple[ServerConfig, McpConnection, Listing | str]:
        """Return a server with its tools, or with the reason why it is unavailable."""
        if server.unusable:
            return server, McpConnection(server, root), server.unusable
        connection = self._connections.setdefault((server, root), McpConnection(server, root))
        try:
            return server, connection, await connection.listing()
        except Unreachable as error:
            return server, connection, str(error)


def _make_tools(
    found: Iterable[tuple[ServerConfig, McpConnection, Listing | str]],
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Create the tools; validating the schemas of many tools is slow."""
    tools: list[Tool] = []
    warnings: list[str] = []
    names: set[str] = set()
    for server, connection, listing in found:
        place = f"mcp_servers: {server.name}"
        if isinstance(listing, str):
            warnings.append(f"{place}: {listing}; the run continues without its tools")
            continue
        if not listing.complete:
            warnings.append(f"{place}: it lists too many tools; only the first {len(listing.tools):,} are used")
        if listing.rejected:
            warnings.append(f"{place}: {listing.rejected}")
        listed = [(one.name, one.description or one.title or "", one.input_schema) for one in listing.tools]
        for definition in definitions(server.name, listed, names):
            tools.append(_tool(definition, connection))
            if definition.name != tool_name(server.name, definition.called):
                renamed = f"{shown(definition.called)} is renamed to {definition.name}"
                warnings.append(f"{place}: {renamed}, because another tool already has that name")
    return tuple(tools), tuple(warnings)


def _tool(definition: Definition, connection: McpConnection) -> Tool:
    async def call(**arguments: Any) -> str:  # noqa: ANN401 - the server validates them
        return await connection.call(definition.called, arguments)

    return Tool(definition.name, definition.description, call, schema=definition.schema)
