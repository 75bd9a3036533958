"""Tools of MCP servers: connections, definitions, and one tool for each."""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ToolError
from run_specialist.installation import adding
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.specialist.problems import shown
from run_specialist.tools.base import Tool
from run_specialist.tools.threads import in_thread

if TYPE_CHECKING:
    from mcp.types import Tool as ListedTool


class Unreachable(Exception):
    """A server is unavailable; `str(error)` is the reason, on one line."""


class SessionForgotten(Exception):
    """The server no longer knows the session, and has not executed the call."""


Listing = tuple[Sequence["ListedTool"], Sequence[str]]
"""Tools that a server listed when it was started, and why others are omitted."""


class McpConnection:
    """Connection to one server, shared by all runs that name it."""

    def __init__(self, server: ServerConfig, root: Path) -> None:
        """Create a connection without starting the server.

        root: working folder of the server's process.
        """
        self._server = server
        self._root = root
        # An `McpSession`, whose module is imported late.
        self._session: Any = None
        self._restart_error = ""

    async def listing(self) -> Listing:
        """Return the tools of the server, starting it if it is not running.

        Raises Unreachable.
        """
        self._restart_error = ""
        listing: Listing = await (await self._live_session()).listing()
        return listing

    async def call(self, tool: str, /, **arguments: Any) -> str:  # noqa: ANN401 - the server validates them
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
            if self._restart_error:
                raise ToolError(self._restart_error)
            try:
                session = await self._live_session()
                await session.listing()
                return str(await session.call(tool, arguments))
            except Unreachable as error:
                # A restart may take long, so it is tried again only by the next run.
                self._restart_error = f"the server is gone, and could not be started again: {error}"
                raise ToolError(self._restart_error) from None
            except SessionForgotten:
                await self.close()
        raise ToolError("the server forgets who asks between one request and the next")

    async def close(self) -> None:
        """Close the connection and stop the server's process."""
        if self._session is not None:
            await self._session.close()

    async def _live_session(self) -> Any:  # noqa: ANN401 - as above
        if self._session is None or self._session.is_closed:
            try:
                library = await in_thread(partial(import_module, "run_specialist.tools.mcp_session"))
            except ImportError as error:
                raise Unreachable(f"the MCP client is not installed ({error}); {adding('mcp')}") from None
            # Another call may have started the server in the meantime.
            if self._session is None or self._session.is_closed:
                self._session = library.McpSession(self._server, self._root)
        return self._session


LONGEST_NAME = 64
LONGEST_DESCRIPTION = 10_000
LARGEST_SCHEMA = 100_000

_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIGEST = 8
_UNSUPPORTED_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$schema", "$id")


def tools_of(
    server: str, call: Callable[..., Awaitable[str]], listed: Iterable["ListedTool"], taken: set[str]
) -> Iterator[tuple[str, Tool]]:
    """Yield the tools of a server, with their names there; of several with the same name there, only the first.

    call: calls a tool by its name on the server, with its arguments.
    taken: names already in use; the new names are added.
    """
    by_call = {one.name: one for one in reversed([*listed])}
    # A stable order, so that a resumed run gets the same names.
    for called, one in sorted(by_call.items()):
        name = tool_name(server, called)
        if name in taken:
            name = _with_digest(name, f"{server}/{called}")
        taken.add(name)
        schema, note = fit_schema(one.input_schema)
        description = (one.description or one.title or "")[:LONGEST_DESCRIPTION] or called
        text = "\n".join(filter(None, [description, note]))
        yield called, Tool(name, text, partial(call, called), schema=schema, numbered=True)


def tool_name(server: str, called: str) -> str:
    """Return `mcp__server__tool` in the characters model APIs allow, truncated with a digest if too long."""
    name = f"mcp__{server}__{re.sub('[^A-Za-z0-9_-]', '_', called)}"
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
        accepted, lost = {"type": "object", "properties": {}}, dict(schema)
    note = json.dumps(lost, ensure_ascii=False)[:LONGEST_DESCRIPTION] if lost else ""
    return accepted, f"The arguments are held against this JSON Schema: {note}" if note else ""


def _is_accepted(schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - slow to load

    properties = schema["properties"]
    if not isinstance(properties, Mapping) or not all(_PROPERTY.fullmatch(str(key)) for key in properties):
        return False
    try:
        if is_small := len(json.dumps(schema)) <= LARGEST_SCHEMA:
            Draft202012Validator.check_schema(schema)
    except (SchemaError, ValueError, RecursionError):
        return False
    return is_small


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
        return await in_thread(lambda: _make_tools(found))

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
        for called, tool in tools_of(server.name, connection.call, found_tools, names):
            tools.append(tool)
            if tool.name != tool_name(server.name, called):
                renamed = f"{shown(called)} is renamed to {tool.name}"
                warnings.append(f"{place}: {renamed}, because another tool already has that name")
    return tuple(tools), tuple(warnings)


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES = re.compile(
    rb"""
    \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}  # surrogate pair
  | (\\u[dD][89a-fA-F][0-9a-fA-F]{2})                            # lone surrogate
  | \\.                                                          # any other escape
    """,
    re.VERBOSE | re.DOTALL,
)


def replace_lone_surrogates(line: bytes) -> bytes:
    """Replace lone surrogates in a line of JSON with U+FFFD.

    They come from programs that truncate UTF-16 strings, e.g. in JavaScript, in the middle of an emoji.
    """
    if not _SURROGATE.search(line):
        return line
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)
