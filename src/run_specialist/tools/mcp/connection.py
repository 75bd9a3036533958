"""Connection to an MCP server, which restarts a server that has ended."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.mcp.server_errors import Unreachable
from run_specialist.tools.mcp.session import Listing, McpSession, SessionForgotten


class McpConnection:
    """Connection to one server, shared by all runs that name it."""

    def __init__(self, server: ServerConfig, root: Path) -> None:
        """Create a connection without starting the server.

        root: working folder of the server's process.
        """
        self._server = server
        self._root = root
        self._session: McpSession | None = None
        self._restart_error = ""

    async def listing(self) -> Listing:
        """Return the tools of the server, starting it if it is not running.

        Raises Unreachable.
        """
        self._restart_error = ""
        return await self._live_session().listing()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool and return its result; a server that has ended is restarted first, once.

        A call in progress when the server ended is not retried, since it may have had side effects.
        tool: name of the tool on the server.
        Raises ToolError for every failure.
        """
        try:
            json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            raise ToolError("the arguments hold half a character, or a number that is none") from None
        try:
            return await (await self._restarted()).call(tool, arguments)
        except SessionForgotten:
            await self.close()
        try:
            return await (await self._restarted()).call(tool, arguments)
        except SessionForgotten:
            raise ToolError("the server forgets who asks between one request and the next") from None

    async def close(self) -> None:
        """Close the connection and stop the server's process."""
        if self._session is not None:
            await self._session.close()

    async def _restarted(self) -> McpSession:
        if self._restart_error:
            raise ToolError(self._restart_error)
        session = self._live_session()
        try:
            await session.listing()
        except Unreachable as error:
            # A restart may take long, so it is tried again only by the next run.
            self._restart_error = f"the server is gone, and could not be started again: {error}"
            raise ToolError(self._restart_error) from None
        return session

    def _live_session(self) -> McpSession:
        if self._session is None or self._session.is_closed:
            self._session = McpSession(self._server, self._root)
        return self._session
