"""An MCP server as its callers see it: there when it is called, started anew when it has ended."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.mcp.server_errors import Unreachable
from run_specialist.tools.mcp.session import Listing, McpSession, SessionForgotten


class Connection:
    """One server, shared by all runs that name it."""

    def __init__(self, server: ServerConfig, root: Path) -> None:
        """Take what to reach, and the folder that its process works in; nothing is started yet."""
        self._server = server
        self._root = root
        self._line: McpSession | None = None
        self._lost = ""

    async def listing(self) -> Listing:
        """Return the tools of the server, which is started unless it runs.

        Raises Unreachable.
        """
        self._lost = ""
        return await self._current().listing()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return what a tool answers; a server that has ended since is started once more before.

        A call that was under way when it ended is not repeated: it may have had its effect.
        tool: as the server calls it.
        Raises ToolError for whatever goes wrong.
        """
        try:
            json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            raise ToolError("the arguments hold half a character, or a number that is none") from None
        try:
            return await (await self._begun()).call(tool, arguments)
        except SessionForgotten:
            await self.close()
        try:
            return await (await self._begun()).call(tool, arguments)
        except SessionForgotten:
            raise ToolError("the server forgets who asks between one request and the next") from None

    async def close(self) -> None:
        """End the connection, and the process behind it."""
        if self._line is not None:
            await self._line.close()

    async def _begun(self) -> McpSession:
        if self._lost:
            raise ToolError(self._lost)
        line = self._current()
        try:
            await line.listing()
        except Unreachable as error:
            # Each try may take as long as a start does; the next run tries again.
            self._lost = f"the server is gone, and could not be started again: {error}"
            raise ToolError(self._lost) from None
        return line

    def _current(self) -> McpSession:
        if self._line is None or self._line.is_over:
            self._line = McpSession(self._server, self._root)
        return self._line
