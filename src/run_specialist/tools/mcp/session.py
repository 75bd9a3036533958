"""One life of a connection to an MCP server: a task that holds it open until one of both sides ends it."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from run_specialist.errors import ToolError
from run_specialist.redaction import redact, redactor
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.mcp.process import TO_LEAVE, TO_OBEY, ServerProcess
from run_specialist.tools.mcp.result import text_of
from run_specialist.tools.mcp.server_errors import CLOSED, Hide, Unreachable, cause, first_line, misfit, told
from run_specialist.tools.mcp.tool_filter import ToolFilter
from run_specialist.tools.mcp.web import Web
from run_specialist.tools.threads import in_thread
from run_specialist.version import release

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool as Listed

MOST_TOOLS = 1_000
MOST_PAGES = 100
TO_CLOSE = 2 * TO_LEAVE + 2 * TO_OBEY
"""After these a connection that does not end is cut [s]."""

_SESSION_GONE = "Session terminated"


class SessionForgotten(Exception):
    """The server no longer knows us, and has not run the call."""


class _Transport(Protocol):
    def last_words(self, hide: Hide) -> str: ...

    def connected(self) -> AbstractAsyncContextManager[Any]: ...


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server, as it told them when it was started."""

    tools: tuple["Listed", ...]
    complete: bool
    """False where there are more than are taken."""
    lost: str = ""
    """Which tools are left out because they are none, and why; empty where all are taken."""


class McpSession:
    """A server that was started, or is being started; it ends when it is closed, or by itself."""

    def __init__(self, server: ServerConfig, root: Path) -> None:
        """Start it in a task of its own: what the library opens has to be closed where it was opened.

        root: the folder that its process works in.
        """
        loop = asyncio.get_running_loop()
        self._server = server
        self._root = root
        self._transport: _Transport | None = None
        self._client: Client | None = None
        self._over = asyncio.Event()
        self._gone = False
        self._why = ""
        self._hide: Hide = redact
        self._listed: asyncio.Future[Listing | Unreachable] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._task = asyncio.create_task(self._hold())

    @property
    def is_over(self) -> bool:
        """Whether nothing can be asked over it any more."""
        return self._over.is_set()

    async def listing(self) -> Listing:
        """Wait until the server has told its tools.

        Raises Unreachable.
        """
        listed = await asyncio.shield(self._listed)
        if isinstance(listed, Unreachable):
            raise listed
        return listed

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return what a tool answers; cancelling tells the server so.

        Raises ToolError, and Forgotten where the call may simply be made again over another line.
        """
        from mcp import MCPError  # noqa: PLC0415 - a heavy library, loaded since the server was started
        from pydantic import ValidationError  # noqa: PLC0415 - likewise

        try:
            return await self._called(tool, arguments)
        except MCPError as error:
            if self.is_over or error.error.message == CLOSED:
                await self._ended()
                raise ToolError(f"the server ended before it answered: {self._words()}") from None
            if error.error.message == _SESSION_GONE:
                raise SessionForgotten from None
            raise ToolError(first_line([error.error.message, f"error {error.error.code}"], self._hide)) from None
        except ValidationError as error:
            raise ToolError(misfit("its answer is", error, self._hide)) from None

    async def _called(self, tool: str, arguments: Mapping[str, Any]) -> str:
        from mcp.types import (  # noqa: PLC0415 - as above
            CallToolRequest,
            CallToolRequestParams,
            CallToolResult,
            InputRequiredResult,
        )
        from pydantic import TypeAdapter  # noqa: PLC0415 - as above

        if self._client is None:
            raise ToolError(f"the server ended: {self._words()}")
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        wanted: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
        # Not by `call_tool`, which throws a result away that does not fit the server's own schema of it.
        result = await self._client.session.send_request(request, wanted)
        if isinstance(result, InputRequiredResult):
            raise ToolError("the server asks for more input, and there is nobody to ask")
        return self._hide(text_of(result))

    async def close(self) -> None:
        """End it, and the process behind it."""
        if not self._listed.done():
            self._task.cancel()
        await self._ended()

    async def _ended(self) -> None:
        self._over.set()
        await asyncio.wait([self._task], timeout=TO_CLOSE)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=TO_CLOSE)

    def _late(self) -> None:
        if not self._listed.done():
            self._why = f"it did not tell its tools within {self._server.timeout:g} seconds"
            self._task.cancel()

    def _left(self) -> None:
        # Before the server has told its tools, what is being asked of it fails by itself.
        self._gone = True
        if self._listed.done():
            self._over.set()

    async def _hold(self) -> None:
        try:
            await self._live()
        except asyncio.CancelledError:
            # By `close`, by `_late`, or because the program ends: nobody waits for this task to be cancelled.
            pass
        except BaseException as error:  # noqa: BLE001 - whatever a server or the library does, its tools alone are lost
            self._why = self._why or told(error, self._hide)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._over.set()
            if not self._listed.done():
                self._listed.set_result(Unreachable(self._words()))

    async def _live(self) -> None:
        server = self._server.expanded(os.environ)
        self._hide = redactor(server.secrets)
        try:
            await in_thread(_load)
        except ImportError as error:
            raise Unreachable(f"install what talks to it: pip install 'run-specialist[mcp]' ({error})") from None
        # Our own loading is not the server's time.
        self._timer = asyncio.get_running_loop().call_later(server.timeout, self._late)
        from mcp.types import UNSUPPORTED_PROTOCOL_VERSION  # noqa: PLC0415 - as above

        # Every program that is about speaks the old beginning, and some end at once when they hear another one.
        for mode in ("auto",) if server.url else ("legacy", "auto"):
            try:
                await self._talk(server, mode)
            except Exception as error:
                code = getattr(cause(error), "code", None)
                if mode == "auto" or self._listed.done() or code != UNSUPPORTED_PROTOCOL_VERSION:
                    raise
            else:
                return

    async def _talk(self, server: ServerConfig, mode: str) -> None:
        from mcp import Client  # noqa: PLC0415 - as above
        from mcp.types import Implementation  # noqa: PLC0415 - as above

        self._transport, self._gone = self._transport_of(server), False
        us = Implementation(name="run-specialist", version=release())
        sieve = ToolFilter()
        connected = sieve.over(self._transport.connected())
        async with Client(connected, client_info=us, mode=mode, cache=None) as client:
            listing = await _listing(client, sieve, self._hide)
            self._client = client
            self._listed.set_result(listing)
            if not self._gone:
                await self._over.wait()

    def _transport_of(self, server: ServerConfig) -> _Transport:
        from mcp.client.stdio import get_default_environment  # noqa: PLC0415 - as above

        if server.url is not None:
            return Web(server.url, dict(server.headers), loopback=server.is_loopback)
        environment = get_default_environment() | dict(server.env)
        folder = self._root / (server.cwd or "")
        if not folder.is_dir():
            raise Unreachable(f"there is no folder {folder}")
        return ServerProcess(server.command or (), environment, str(folder), self._left)

    def _words(self) -> str:
        last = self._transport.last_words(self._hide) if self._transport else ""
        return f"{self._why} ({last})" if self._why and last else self._why or last or "the connection was closed"


def _load() -> None:
    import logging  # noqa: PLC0415 - beside its use

    import mcp.client.stdio  # noqa: PLC0415 - a second of work, in a thread
    import mcp.client.streamable_http  # noqa: F401, PLC0415 - likewise

    # What the library would tell of a server's faults stands in our warnings; it must not reach the terminal by itself.
    logging.getLogger("mcp").addHandler(logging.NullHandler())


async def _listing(client: "Client", sieve: ToolFilter, hide: Hide) -> Listing:
    from mcp.types import PaginatedRequestParams  # noqa: PLC0415 - as above
    from pydantic import ValidationError  # noqa: PLC0415 - as above

    tools: list[Listed] = []
    cursor = None
    sieve.begin(client.protocol_version)
    for _ in range(MOST_PAGES):
        try:
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        except ValidationError as error:
            raise Unreachable(misfit("its list of tools is", error, hide)) from None
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) > MOST_TOOLS:
            break
    return Listing(tuple(tools[:MOST_TOOLS]), not cursor and len(tools) <= MOST_TOOLS, sieve.end(hide))
