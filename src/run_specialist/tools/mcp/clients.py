"""Tools of MCP servers, as `mcp__server__tool`."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.specialist.problems import shown
from run_specialist.tools.base import Tool
from run_specialist.tools.mcp.connection import Connection
from run_specialist.tools.mcp.definition import Definition, definitions, tool_name
from run_specialist.tools.mcp.server_errors import Unreachable
from run_specialist.tools.mcp.session import Listing
from run_specialist.tools.threads import in_thread


class McpClients:
    """The servers that a runner's specialists use; each is started for the first run that names it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._connections: dict[tuple[ServerConfig, Path], Connection] = {}

    async def tools(
        self, servers: Mapping[str, ServerConfig], *, root: Path
    ) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        """Return all tools of some servers, and why others cannot be had; a server that fails costs its tools alone.

        They are started at the same time, and kept until `aclose`.
        root: the folder that their processes work in.
        """
        found = await asyncio.gather(*(self._listed(server, root) for server in servers.values()))
        made: tuple[tuple[Tool, ...], tuple[str, ...]] = await in_thread(lambda: _made(found))
        return made

    async def aclose(self) -> None:
        """End all connections, and the processes behind them."""
        connections = list(self._connections.values())
        self._connections.clear()
        await asyncio.gather(*(connection.close() for connection in connections))

    async def _listed(self, server: ServerConfig, root: Path) -> tuple[ServerConfig, Connection, Listing | str]:
        """Return a server with what it offers, or why it cannot be had."""
        if server.unusable:
            return server, Connection(server, root), server.unusable
        connection = self._connections.setdefault((server, root), Connection(server, root))
        try:
            return server, connection, await connection.listing()
        except Unreachable as error:
            return server, connection, str(error)


def _made(found: Iterable[tuple[ServerConfig, Connection, Listing | str]]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Make the tools; as each schema is checked, many of them take their time."""
    tools: list[Tool] = []
    warnings: list[str] = []
    names: set[str] = set()
    for server, connection, listing in found:
        place = f"mcp_servers: {server.name}"
        if isinstance(listing, str):
            warnings.append(f"{place}: {listing}; the run goes on without its tools")
            continue
        if not listing.complete:
            warnings.append(f"{place}: it lists more tools than are taken; there are the first {len(listing.tools):,}")
        if listing.lost:
            warnings.append(f"{place}: {listing.lost}")
        listed = [(one.name, one.description or one.title or "", one.input_schema) for one in listing.tools]
        for definition in definitions(server.name, listed, names):
            tools.append(_tool(definition, connection))
            if definition.name != tool_name(server.name, definition.called):
                told = f"{shown(definition.called)} is called {definition.name}, since another one has its name"
                warnings.append(f"{place}: {told}")
    return tuple(tools), tuple(warnings)


def _tool(definition: Definition, connection: Connection) -> Tool:
    async def call(**arguments: Any) -> str:  # noqa: ANN401 - what fits is known to the server
        return await connection.call(definition.called, arguments)

    return Tool(definition.name, definition.description, call, schema=definition.schema)
