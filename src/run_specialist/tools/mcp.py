"""Tools of MCP servers: clients, sessions, definitions and results."""

import asyncio
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ToolError
from run_specialist.installation import adding
from run_specialist.safety.redact import redact, redactor
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.specialist.problems import shown
from run_specialist.tools.base import Tool, few
from run_specialist.tools.mcp_transport import (
    CLOSED,
    EXIT_GRACE,
    TERM_GRACE,
    Hide,
    ServerProcess,
    Unreachable,
    Web,
    cause,
    describe,
    first_line,
    violation,
)
from run_specialist.tools.threads import in_thread
from run_specialist.version import release

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as ListedTool
    from pydantic import ValidationError


MOST_TOOLS = 1_000
MOST_PAGES = 100
CLOSE_TIMEOUT = 2 * EXIT_GRACE + 2 * TERM_GRACE
"""Timeout for closing a session, after which its task is cancelled [s]."""

_MAX_NAMED = 10
_SESSION_TERMINATED = "Session terminated"


class SessionForgotten(Exception):
    """The server no longer knows the session, and has not executed the call."""


Listing = tuple[Sequence["ListedTool"], Sequence[str]]
"""Tools that a server listed when it was started, and why others are omitted."""


class _InvalidTools:
    """Removes the invalid tools from the lists that a server sends, so that they cost only themselves."""

    def __init__(self) -> None:
        self.version = ""
        """Negotiated protocol version; empty while nothing is to be removed."""
        self._names: list[str] = []
        self._first_error: ValidationError | None = None

    @asynccontextmanager
    async def removed_from(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """Yield the incoming and outgoing message streams of a transport."""
        import anyio  # noqa: PLC0415 - needed only with a server

        async def forward(reader: Any, sending: Any) -> None:  # noqa: ANN401 - streams
            async with sending:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for item in reader:
                        self._remove(getattr(getattr(item, "message", None), "result", None))
                        await sending.send(item)

        async with transport as (reader, writer), anyio.create_task_group() as tasks:
            sending, receiving = anyio.create_memory_object_stream[Any](0)
            async with sending, receiving:
                tasks.start_soon(forward, reader, sending)
                yield receiving, writer
                tasks.cancel_scope.cancel()

    def _remove(self, result: Any) -> None:  # noqa: ANN401 - what a server sent
        if not self.version or not isinstance(result, dict) or not isinstance(result.get("tools"), list):
            return
        # The list is invalid even without tools, so no tool is at fault; the library tolerates some such errors.
        if self._error({**result, "tools": []}):
            return
        valid = []
        for number, tool in enumerate(result["tools"], 1):
            if error := self._error({**result, "tools": [tool]}):
                name = tool.get("name") if isinstance(tool, dict) else None
                self._names.append(shown(name) if isinstance(name, str) and name else f"number {number}")
                self._first_error = self._first_error or error
            else:
                valid.append(tool)
        result["tools"] = valid

    def _error(self, result: dict[str, Any]) -> "ValidationError | None":
        from mcp_types import methods  # noqa: PLC0415 - slow to import; loaded when the server started
        from pydantic import ValidationError  # noqa: PLC0415 - as above

        try:
            methods.parse_server_result("tools/list", self.version, result)
        except ValidationError as error:
            return error
        return None

    def warning(self, hide: Hide) -> str:
        """Return one line about the removed tools; empty if there are none."""
        if self._first_error is None:
            return ""
        names, single = few(self._names, _MAX_NAMED), len(self._names) == 1
        what = f"its tool {names} is" if single else f"its tools {names} are"
        why = violation(what, self._first_error, hide, within=2)
        return f"{why}; the run continues without {'it' if single else 'them'}"


class McpSession:
    """Session with a server, from its start until either side closes it."""

    def __init__(self, server: ServerConfig, root: Path) -> None:
        """Start the server in a separate task, since the library must close its resources in the task that opened them.

        root: working folder of the server's process.
        """
        loop = asyncio.get_running_loop()
        self._server = server
        self._root = root
        self._transport: ServerProcess | Web | None = None
        self._client: Client | None = None
        self._closed = asyncio.Event()
        self._transport_closed = False
        self._error = ""
        self._hide: Hide = redact
        self._listing: asyncio.Future[Listing | Unreachable] = loop.create_future()
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
        from mcp.types import (  # noqa: PLC0415 - as above
            CallToolRequest,
            CallToolRequestParams,
            CallToolResult,
            InputRequiredResult,
        )
        from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - as above

        if self._client is None:
            raise ToolError(f"the server ended: {self._failure()}")
        wanted: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
        try:
            request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
            # `call_tool` would discard a result that does not match the server's own output schema.
            result = await self._client.session.send_request(request, wanted)
        except MCPError as error:
            if self.is_closed or error.error.message == CLOSED:
                await self._wait_closed()
                raise ToolError(f"the server ended before it answered: {self._failure()}") from None
            if error.error.message == _SESSION_TERMINATED:
                raise SessionForgotten from None
            raise ToolError(first_line([error.error.message, f"error {error.error.code}"], self._hide)) from None
        except ValidationError as error:
            raise ToolError(violation("its answer is", error, self._hide)) from None
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

    def _on_transport_closed(self) -> None:
        # Before the tools are listed, the pending request fails by itself.
        self._transport_closed = True
        if self._listing.done():
            self._closed.set()

    async def _run(self) -> None:
        try:
            await self._connect()
        except asyncio.CancelledError:
            # Cancelled by `close`, or at the end of the program: nothing awaits the cancellation.
            pass
        except BaseException as error:  # noqa: BLE001 - any failure of a server must only lose its own tools
            self._error = describe(error, self._hide)
        finally:
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
        from mcp.types import UNSUPPORTED_PROTOCOL_VERSION  # noqa: PLC0415 - as above

        limit = asyncio.timeout(server.timeout)
        try:
            async with limit:
                # All servers support the legacy handshake, and some exit immediately on the new one.
                for mode in ("auto",) if server.url else ("legacy", "auto"):
                    try:
                        return await self._serve(server, mode, limit)
                    except Exception as error:
                        code = getattr(cause(error), "code", None)
                        if mode == "auto" or self._listing.done() or code != UNSUPPORTED_PROTOCOL_VERSION:
                            raise
        except BaseException:
            if limit.expired():
                raise Unreachable(f"it did not tell its tools within {server.timeout:g} seconds") from None
            raise

    async def _serve(self, server: ServerConfig, mode: str, limit: asyncio.Timeout) -> None:
        """Serve calls until either side closes the session.

        limit: timeout that applies until the tools are listed.
        """
        from mcp import Client  # noqa: PLC0415 - as above
        from mcp.types import Implementation  # noqa: PLC0415 - as above

        transport = self._transport_of(server)
        self._transport, self._transport_closed = transport, False
        invalid = _InvalidTools()
        connected = invalid.removed_from(transport.connected())
        client_info = Implementation(name="run-specialist", version=release())
        async with Client(connected, client_info=client_info, mode=mode, cache=None) as client:
            listing = await _list_tools(client, invalid, self._hide)
            limit.reschedule(None)
            self._client = client
            self._listing.set_result(listing)
            if not self._transport_closed:
                await self._closed.wait()

    def _transport_of(self, server: ServerConfig) -> ServerProcess | Web:
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


async def _list_tools(client: "Client", invalid: _InvalidTools, hide: Hide) -> Listing:
    from mcp.types import PaginatedRequestParams  # noqa: PLC0415 - as above
    from pydantic import ValidationError  # noqa: PLC0415 - as above

    tools: list[ListedTool] = []
    cursor = None
    invalid.version = client.protocol_version
    for _ in range(MOST_PAGES):
        try:
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        except ValidationError as error:
            raise Unreachable(violation("its list of tools is", error, hide)) from None
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) > MOST_TOOLS:
            break
    invalid.version = ""
    used = tools[:MOST_TOOLS]
    too_many = f"it lists too many tools; only the first {len(used):,} are used"
    warnings = [too_many if cursor or len(used) < len(tools) else "", invalid.warning(hide)]
    return used, [warning for warning in warnings if warning]


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
        for _ in range(2):
            try:
                return await (await self._restarted()).call(tool, arguments)
            except SessionForgotten:
                await self.close()
        raise ToolError("the server forgets who asks between one request and the next")

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


LONGEST_NAME = 64
LONGEST_DESCRIPTION = 10_000
LARGEST_SCHEMA = 100_000

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIGEST = 8
_UNSUPPORTED_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$schema", "$id")
_ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of one tool of a server for the model."""

    name: str
    """Name for the model: `mcp__server__tool`."""
    called: str
    """Name of the tool on the server."""
    description: str
    schema: Mapping[str, Any]


def definitions(
    server: str, listed: Iterable[tuple[str, str, Mapping[str, Any]]], taken: set[str]
) -> Iterator[Definition]:
    """Yield the tools of a server under unique names; of several with the same name on the server, only the first.

    listed: name, description and JSON Schema of the arguments of each tool, as listed by the server.
    taken: names already in use; the new names are added.
    """
    by_call: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for called, description, schema in listed:
        by_call.setdefault(called, (description, schema))
    # A stable order, so that a resumed run gets the same names.
    for called, (description, schema) in sorted(by_call.items()):
        name = tool_name(server, called)
        if name in taken:
            name = _with_digest(name, f"{server}/{called}")
        taken.add(name)
        accepted, note = fit_schema(schema)
        yield Definition(
            name, called, "\n".join(filter(None, [description[:LONGEST_DESCRIPTION] or called, note])), accepted
        )


def tool_name(server: str, called: str) -> str:
    """Return `mcp__server__tool` in the characters model APIs allow, truncated with a digest if too long."""
    name = f"mcp__{server}__{_NOT_ALLOWED.sub('_', called)}"
    return name if len(name) <= LONGEST_NAME else _with_digest(name, f"{server}/{called}")


def _with_digest(name: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST_NAME - _DIGEST - 1]}_{digest}"


def fit_schema(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return a schema that model APIs accept, and a note for the description with the constraints it lost.

    An invalid schema would make the API reject every request, so it is replaced by one that allows any arguments; the
    server validates them.
    """
    accepted = {key: value for key, value in schema.items() if key not in _UNSUPPORTED_AT_TOP}
    accepted = {**accepted, "type": "object", "properties": schema.get("properties") or {}}
    lost = {key: schema[key] for key in _UNSUPPORTED_AT_TOP if key in schema and not key.startswith("$")}
    if not _is_accepted(accepted):
        accepted, lost = dict(_ANY_ARGUMENTS), dict(schema)
    note = json.dumps(lost, ensure_ascii=False)[:LONGEST_DESCRIPTION] if lost else ""
    return accepted, f"The arguments are held against this JSON Schema: {note}" if note else ""


def _is_accepted(schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - slow to load

    properties = schema["properties"]
    if not isinstance(properties, Mapping) or not all(_PROPERTY.fullmatch(str(key)) for key in properties):
        return False
    try:
        if len(json.dumps(schema)) > LARGEST_SCHEMA:
            return False
        Draft202012Validator.check_schema(schema)
    except (SchemaError, ValueError, RecursionError):
        return False
    return True


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
        found_tools, omitted = listing
        warnings += [f"{place}: {warning}" for warning in omitted]
        listed = [(one.name, one.description or one.title or "", one.input_schema) for one in found_tools]
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


LONGEST_RESULT = 2_000_000
"""Maximum length of a result; the rest is dropped to save memory and storage [characters]."""


def text_of(result: "CallToolResult") -> str:
    """Return the text of a result, with a placeholder line for each part that is not text.

    Raises ToolError with this text if the server reports that the call failed.
    """
    parts = [_block_text(block.model_dump(mode="json", by_alias=True, exclude_none=True)) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(block.type == "text" for block in result.content):
        parts.insert(0, json.dumps(structured, ensure_ascii=False))
    text = "\n".join(parts)
    if len(text) > LONGEST_RESULT:
        text = f"{text[:LONGEST_RESULT]}\n[{len(text) - LONGEST_RESULT:,} more characters were not kept]"
    if result.is_error:
        raise ToolError(text or "the server does not tell why")
    return text


def _block_text(block: Mapping[str, Any]) -> str:
    kind = block["type"]
    if kind == "text":
        return str(block["text"])
    if kind in {"image", "audio"}:
        return _placeholder(f"{kind}, {_label(block.get('mimeType'))}", block.get("data"))
    if kind == "resource_link":
        about = [block.get("title") or block.get("name"), block.get("description"), block.get("uri")]
        return f"[resource: {', '.join(_label(word) for word in about if word)}]"
    resource = block.get("resource", {})
    if "text" in resource:
        return f"[resource: {_label(resource.get('uri'))}]\n{resource['text']}"
    return _placeholder(
        f"resource {_label(resource.get('uri'))}, {_label(resource.get('mimeType'))}", resource.get("blob")
    )


def _placeholder(what: str, data: object) -> str:
    size = f", {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    return f"[left out, since only text is read: {what}{size}]"


def _label(word: object) -> str:
    return shown(str(word)) if word else "of an unknown kind"
