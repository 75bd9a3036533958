"""Tools of MCP servers, as `mcp__server__tool`."""

from collections.abc import Mapping
from pathlib import Path

from run_specialist.specialist.servers import Server
from run_specialist.tools.base import Tool


class McpClients:
    """The servers that a runner's specialists use; each is started for the first run that names it."""

    async def tools(self, servers: Mapping[str, Server], *, root: Path) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        """Return all tools of some servers, and why others cannot be had; a server that fails costs its tools alone.

        root: the folder that their processes work in.
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        """End all connections, and the processes behind them."""
        raise NotImplementedError
