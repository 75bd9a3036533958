"""Session with an MCP server: a task that keeps it open until either side closes it."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from run_specialist.errors import ToolError
from run_specialist.installation import adding
from run_specialist.redaction import redact, redactor
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.mcp.process import EXIT_GRACE, TERM_GRACE, ServerProcess
from run_specialist.tools.mcp.result import text_of
from run_specialist.tools.mcp.server_errors import CLOSED, Hide, Unreachable, cause, describe, first_line, violation
from run_specialist.tools.mcp.tool_filter import ToolFilter
from run_specialist.tools.mcp.web import Web
from run_specialist.tools.threads import in_thread
from run_specialist.version import release

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool as ListedTool

MOST_TOOLS = 1_000
MOST_PAGES = 100
CLOSE_TIMEOUT = 2 * EXIT_GRACE + 2 * TERM_GRACE
"""Timeout for closing a session, after which its task is cancelled [s]."""

_SESSION_TERMINATED = "Session terminated"


class SessionForgotten(Exception):
    """The server no longer knows the session, and has not executed the call."""


class _Transport(Protocol):
    def failure(self, hide: Hide) -> str: ...

    def connected(self) -> AbstractAsyncContextManager[Any]: ...


@dataclass(frozen=True, slots=True)
class Listing:
    """Tools that a server listed when it was started."""

    tools: tuple["ListedTool", ...]
    complete: bool
    """Whether the list is complete; False above the limits."""
    rejected: str = ""
    """Names of invalid tools that were omitted, with the reason; empty if there are none."""


class McpSession:
    """Session with a server, from its start until either side closes it."""

    def __init__(self, server: ServerConfig, root: Path) -> None:
        """Start the server in a separate task, since the library must close its resources in the task that opened them.

        root: working folder of the server's process.
        """
        loop = asyncio.get_running_loop()
        self._server = server
        self._root = root
        self._transport: _Transport | None = None
        self._client: Client | None = None
        self._closed = asyncio.Event()
        self._transport_closed = False
        self._error = ""
        self._hide: Hide = redact
        self._listing: asyncio.Future[Listing | Unreachable] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._task = asyncio.create_task(self._run())

    @property
    def is_closed(self) -> bool:
        """Whether the session is closed for requests."""
        return self._closed.is_set()

    async def listing(self) -> Listing:
        """Wait until the server has listed its tools, and return them.

        Raises Unreachable.
        """
        listed = await asyncio.shield(self._listing)
        if isinstance(listed, Unreachable):
            raise listed
        return listed

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool and return its result; a cancellation is sent to the server.

        Raises ToolError, and SessionForgotten if the call can be retried in a new session.
        """
        from mcp import MCPError  # noqa: PLC0415 - slow to import; loaded when the server started
        from pydantic import ValidationError  # noqa: PLC0415 - as above

        try:
            return await self._send_call(tool, arguments)
        except MCPError as error:
            if self.is_closed or error.error.message == CLOSED:
                await self._wait_closed()
                raise ToolError(f"the server ended before it answered: {self._failure()}") from None
            if error.error.message == _SESSION_TERMINATED:
                raise SessionForgotten from None
            raise ToolError(first_line([error.error.message, f"error {error.error.code}"], self._hide)) from None
        except ValidationError as error:
            raise ToolError(violation("its answer is", error, self._hide)) from None

    async def _send_call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        from mcp.types import (  # noqa: PLC0415 - as above
            CallToolRequest,
            CallToolRequestParams,
            CallToolResult,
            InputRequiredResult,
        )
        from pydantic import TypeAdapter  # noqa: PLC0415 - as above

        if self._client is None:
            raise ToolError(f"the server ended: {self._failure()}")
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        wanted: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
        # `call_tool` would discard a result that does not match the server's own output schema.
        result = await self._client.session.send_request(request, wanted)
        if isinstance(result, InputRequiredResult):
            raise ToolError("the server asks for more input, and there is nobody to ask")
        return self._hide(text_of(result))

    async def close(self) -> None:
        """Close the session and stop the server's process."""
        if not self._listing.done():
            self._task.cancel()
        await self._wait_closed()

    async def _wait_closed(self) -> None:
        self._closed.set()
        await asyncio.wait([self._task], timeout=CLOSE_TIMEOUT)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_TIMEOUT)

    def _on_timeout(self) -> None:
        if not self._listing.done():
            self._error = f"it did not tell its tools within {self._server.timeout:g} seconds"
            self._task.cancel()

    def _on_transport_closed(self) -> None:
        # Before the tools are listed, the pending request fails by itself.
        self._transport_closed = True
        if self._listing.done():
            self._closed.set()

    async def _run(self) -> None:
        try:
            await self._connect()
        except asyncio.CancelledError:
            # Cancelled by `close`, by the timeout, or at the end of the program: nothing awaits the cancellation.
            pass
        except BaseException as error:  # noqa: BLE001 - any failure of a server must only lose its own tools
            self._error = self._error or describe(error, self._hide)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._closed.set()
            if not self._listing.done():
                self._listing.set_result(Unreachable(self._failure()))

    async def _connect(self) -> None:
        server = self._server.expanded(os.environ)
        self._hide = redactor(server.secrets)
        try:
            await in_thread(_import_library)
        except ImportError as error:
            raise Unreachable(f"the MCP client is not installed ({error}); {adding('mcp')}") from None
        # The timeout starts after the import of the library.
        self._timer = asyncio.get_running_loop().call_later(server.timeout, self._on_timeout)
        from mcp.types import UNSUPPORTED_PROTOCOL_VERSION  # noqa: PLC0415 - as above

        # All servers support the legacy handshake, and some exit immediately on the new one.
        for mode in ("auto",) if server.url else ("legacy", "auto"):
            try:
                await self._serve(server, mode)
            except Exception as error:
                code = getattr(cause(error), "code", None)
                if mode == "auto" or self._listing.done() or code != UNSUPPORTED_PROTOCOL_VERSION:
                    raise
            else:
                return

    async def _serve(self, server: ServerConfig, mode: str) -> None:
        from mcp import Client  # noqa: PLC0415 - as above
        from mcp.types import Implementation  # noqa: PLC0415 - as above

        self._transport, self._transport_closed = self._transport_of(server), False
        client_info = Implementation(name="run-specialist", version=release())
        tool_filter = ToolFilter()
        connected = tool_filter.wrap(self._transport.connected())
        async with Client(connected, client_info=client_info, mode=mode, cache=None) as client:
            listing = await _list_tools(client, tool_filter, self._hide)
            self._client = client
            self._listing.set_result(listing)
            if not self._transport_closed:
                await self._closed.wait()

    def _transport_of(self, server: ServerConfig) -> _Transport:
        import platformdirs  # noqa: PLC0415 - as above
        from mcp.client.stdio import get_default_environment  # noqa: PLC0415 - as above

        if server.url is not None:
            return Web(server.url, dict(server.headers), loopback=server.is_loopback)
        # Python then ignores compiled modules of the project, which may differ from the source that was trusted.
        compiled = {
            "PYTHONPYCACHEPREFIX": str(platformdirs.user_cache_path("run-specialist", appauthor=False) / "pycache")
        }
        environment = get_default_environment() | compiled | dict(server.env)
        folder = self._root / (server.cwd or "")
        if not folder.is_dir():
            raise Unreachable(f"there is no folder {folder}")
        return ServerProcess(server.command or (), environment, str(folder), self._on_transport_closed)

    def _failure(self) -> str:
        last = self._transport.failure(self._hide) if self._transport else ""
        return f"{self._error} ({last})" if self._error and last else self._error or last or "the connection was closed"


def _import_library() -> None:
    import logging  # noqa: PLC0415 - needed only here

    import mcp.client.stdio  # noqa: PLC0415 - takes a second, so it runs in a thread
    import mcp.client.streamable_http  # noqa: F401, PLC0415 - as above

    # Server faults are reported as warnings of the run; the library must not log them to the terminal.
    logging.getLogger("mcp").addHandler(logging.NullHandler())


async def _list_tools(client: "Client", tool_filter: ToolFilter, hide: Hide) -> Listing:
    from mcp.types import PaginatedRequestParams  # noqa: PLC0415 - as above
    from pydantic import ValidationError  # noqa: PLC0415 - as above

    tools: list[ListedTool] = []
    cursor = None
    tool_filter.begin(client.protocol_version)
    for _ in range(MOST_PAGES):
        try:
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        except ValidationError as error:
            raise Unreachable(violation("its list of tools is", error, hide)) from None
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) > MOST_TOOLS:
            break
    return Listing(tuple(tools[:MOST_TOOLS]), not cursor and len(tools) <= MOST_TOOLS, tool_filter.end(hide))
