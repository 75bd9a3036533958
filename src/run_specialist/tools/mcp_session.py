"""Sessions with MCP servers: connect by pipes or HTTP, list tools, call them, and describe errors.

Importing the library takes a second, so this module is imported in a thread, for the first server.
"""

import asyncio
import json
import logging
import math
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import platformdirs
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, MCPError, types
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import methods
from pydantic import TypeAdapter, ValidationError

from run_specialist.errors import ToolError
from run_specialist.safety.redact import redact, redactor
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.specialist.problems import shown
from run_specialist.tools.base import few
from run_specialist.tools.mcp import Listing, SessionForgotten, Unreachable, replace_lone_surrogates
from run_specialist.tools.threads import exits_within, running, signal_group
from run_specialist.version import release

# Server faults are reported as warnings of the run; the library must not log them to the terminal.
logging.getLogger("mcp").addHandler(logging.NullHandler())

CLOSED = "Connection closed"
"""Message of the library for a closed connection."""

# Masks secrets; applied before truncation, since a truncated key would not be recognized.
_Hide = Callable[[str], str]

_VALIDATION_DETAILS = re.compile(r":\s*\d+ validation errors? for .*", re.DOTALL)


def first_line(texts: Iterable[str], hide: _Hide) -> str:
    """Return the first nonempty text as one printable line, without secrets and validation details."""
    one = next((text for text in texts if text.strip()), "")
    return shown(" ".join(hide(_VALIDATION_DETAILS.sub("", one)).split()), 300)


def violation(what: str, error: ValidationError, hide: _Hide, *, within: int = 0) -> str:
    """Return where a response of the server violates the protocol.

    what: subject and verb of the sentence.
    within: number of leading location parts that `what` already names.
    """
    wrong = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in wrong["loc"][within:])
    return first_line([": ".join(filter(None, [f"{what} not what the protocol wants", place, wrong["msg"]]))], hide)


def cause(error: BaseException) -> BaseException:
    """Return the first error of nested exception groups, in which the library's tasks wrap errors."""
    return cause(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def describe(error: BaseException, hide: _Hide) -> str:
    """Return an error as one line; empty if the connection was merely closed."""
    error = cause(error)
    text = first_line([str(error)], hide)
    if text == CLOSED:
        return ""
    if isinstance(error, OSError) and error.filename:
        return f"{first_line([str(error.filename)], hide)} cannot be started: {error.strerror}"
    name = type(error).__name__
    return (text or name) if isinstance(error, Unreachable | ValueError | MCPError) else f"{name}: {text}".rstrip(": ")


# Connect timeout; the timeout of a response is set by its caller [s].
_TO_CONNECT = 10.0


@dataclass(slots=True)
class Web:
    """Streamable HTTP transport that remembers the last HTTP error status."""

    url: str
    headers: Mapping[str, str]
    loopback: bool
    """Whether the server is on this machine; proxies from the environment are then ignored."""
    http_error: str = ""

    def failure(self, hide: _Hide) -> str:
        """Return the last HTTP error status; empty if there is none."""
        return hide(self.http_error)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """Connect and yield the incoming and outgoing message streams."""
        async with (
            httpx2.AsyncClient(
                # The decompressed size of a compressed response could not be limited.
                headers={**self.headers, "accept-encoding": "identity"},
                timeout=httpx2.Timeout(_TO_CONNECT, read=None),
                event_hooks={"response": [self._check_response]},
                trust_env=not self.loopback,
            ) as client,
            streamable_http_client(self.url, http_client=client, max_sse_event_size=LARGEST_MESSAGE) as streams,
        ):
            yield streams

    async def _check_response(self, response: httpx2.Response) -> None:
        # Servers need not support the stream that the library requests with GET.
        if response.is_error and response.request.method == "POST":
            self.http_error = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.StreamError("its answer is compressed, which was not asked for")
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            response.stream = _SizeLimited(response.stream)


class _SizeLimited(httpx2.AsyncByteStream):
    """Response body that raises StreamError once it is too large."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - a private type of the library
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > LARGEST_MESSAGE:
                raise httpx2.StreamError(f"it is larger than {LARGEST_MESSAGE // 1024**2} MiB")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


LARGEST_MESSAGE = 10 * 1024 * 1024
"""Maximum size of one line; a server that sends a longer one is stopped [bytes]."""
# Grace periods for a server to exit after its input was closed, and after a SIGTERM [s].
_EXIT_GRACE, _TERM_GRACE = 1.0, 1.0

_STDERR_TAIL = 4096
_DRAIN_TIMEOUT = 0.2


@dataclass(slots=True)
class ServerProcess:
    """Process that exchanges messages line by line; its standard error never reaches the terminal."""

    command: Sequence[str]
    environment: Mapping[str, str]
    """All of its environment variables."""
    folder: str
    on_end: Callable[[], None]
    """Callback for when the process can send no more messages."""
    _fault: str = ""
    _stderr: bytes = b""
    _closing: bool = False
    _ended_early: bool = False
    _exit_code: int | None = None

    def failure(self, hide: _Hide) -> str:
        """Return how the process ended on its own, and the last line of its standard error; may be empty."""
        last_line = first_line(reversed(self._stderr.decode(errors="replace").splitlines()), hide)
        if self._fault or not self._ended_early:
            return self._fault or (last_line and f"its last words: {last_line}")
        code = self._exit_code
        how = "closed its output" if code is None else f"exited with code {code}" if code >= 0 else "was killed"
        return f"it {how}{f', saying: {last_line}' if last_line else ''}"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """Start the process and yield its incoming and outgoing message streams; on exit, kill its process group.

        Raises OSError or ValueError if it cannot be started.
        """
        options = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, "env": dict(self.environment), "cwd": self.folder}
        async with running(self.command, LARGEST_MESSAGE, **options) as process:
            to_reader, reader = anyio.create_memory_object_stream[Any](0)
            writer, from_writer = anyio.create_memory_object_stream[Any](0)
            reading = asyncio.create_task(self._read(process, to_reader))
            others = [self._write(process, from_writer), self._read_stderr(process), self._watch(process, reading)]
            tasks = [reading, *map(asyncio.create_task, others)]
            try:
                yield reader, writer
            finally:
                # A cancellation still lets the process exit gracefully; a second one kills it.
                with anyio.CancelScope(shield=True):
                    try:
                        await self._stop(process, tasks[2])
                    finally:
                        signal_group(process.pid, signal.SIGKILL)
                        for stream in (to_reader, reader, writer, from_writer):
                            stream.close()
                        for task in tasks:
                            task.cancel()
                        await asyncio.wait(tasks)

    async def _watch(self, process: Process, reading: "asyncio.Task[None]") -> None:
        """Stop reading once the process has exited, even if a child of it keeps the pipes open."""
        await exits_within(process, math.inf, poll=0.1)
        self._ended_early |= not self._closing
        # Its last output is still read.
        await asyncio.wait([reading], timeout=_DRAIN_TIMEOUT)
        reading.cancel()

    async def _read(self, process: Process, messages: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Forward the server's messages; ignore lines that are not messages."""
        assert process.stdout is not None  # noqa: S101 - stdout is a pipe
        try:
            async for line in process.stdout:
                if message := parse(line):
                    await messages.send(message)
            self._ended_early |= not self._closing
        except ValueError:  # a line that is too long
            self._fault = f"it sent more than {LARGEST_MESSAGE // 1024**2} MiB in one message, and was stopped"
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            messages.close()
            self.on_end()

    async def _write(self, process: Process, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        assert process.stdin is not None  # noqa: S101 - as above
        with suppress(OSError, anyio.ClosedResourceError):
            async for one in messages:
                process.stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()
            return
        # Its earlier answers may still be in the pipe.
        await asyncio.sleep(_EXIT_GRACE)
        self._fault = "it takes no more requests"
        self.on_end()

    async def _read_stderr(self, process: Process) -> None:
        assert process.stderr is not None  # noqa: S101 - as above
        while chunk := await process.stderr.read(_STDERR_TAIL):
            self._stderr = (self._stderr + chunk)[-_STDERR_TAIL:]

    async def _stop(self, process: Process, stderr_task: "asyncio.Task[None]") -> None:
        self._closing = True
        assert process.stdin is not None  # noqa: S101 - as above
        process.stdin.close()
        if self._fault or not await exits_within(process, _EXIT_GRACE):
            signal_group(process.pid, signal.SIGTERM)
            if not await exits_within(process, _TERM_GRACE):
                signal_group(process.pid, signal.SIGKILL)
                await exits_within(process, _TERM_GRACE)
        elif self._ended_early:
            self._exit_code = process.returncode
            # A child of the server may keep the pipe open.
            await asyncio.wait([stderr_task], timeout=_DRAIN_TIMEOUT)


def parse(line: bytes) -> SessionMessage | None:
    """Parse a line; an invalid response becomes an error response, and any other invalid line becomes None."""
    line = replace_lone_surrogates(line)
    with suppress(ValueError):
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    # It may be an invalid response, for which the request must not wait any longer.
    with suppress(ValueError, RecursionError):
        content = json.loads(line)
        if isinstance(content, dict) and "method" not in content and type(content.get("id")) is int:
            error = {"code": -32700, "message": "its answer is no valid message"}
            answer = {"jsonrpc": "2.0", "id": content["id"], "error": error}
            return SessionMessage(types.JSONRPCError.model_validate(answer))
    return None


MOST_TOOLS = 1_000
MOST_PAGES = 100
# Number of location parts that name a tool of a list.
_OF_TOOL = 2


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
        if not self.version or not isinstance(result, dict) or "tools" not in result:
            return
        try:
            methods.parse_server_result("tools/list", self.version, result)
        except ValidationError as error:
            places = [one["loc"] for one in error.errors(include_url=False, include_input=False)]
            # With another error no tool is at fault; the library tolerates some of them.
            if any(len(place) < _OF_TOOL or place[0] != "tools" for place in places):
                return
            tools, invalid = result["tools"], {int(place[1]) for place in places}
            for number in sorted(invalid):
                name = tools[number].get("name") if isinstance(tools[number], dict) else None
                self._names.append(shown(name) if isinstance(name, str) and name else f"number {number + 1}")
            result["tools"] = [tool for number, tool in enumerate(tools) if number not in invalid]
            self._first_error = self._first_error or error

    def warning(self, hide: _Hide) -> str:
        """Return one line about the removed tools; empty if there are none."""
        if self._first_error is None:
            return ""
        what = f"its tools {few(self._names, 10)} are"
        return f"{violation(what, self._first_error, hide, within=_OF_TOOL)}; the run continues without them"


# Timeout for closing a session, after which its task is cancelled [s].
_CLOSE_TIMEOUT = 2 * _EXIT_GRACE + 2 * _TERM_GRACE


_Result = types.CallToolResult | types.InputRequiredResult
_RESULT: TypeAdapter[_Result] = TypeAdapter(_Result)


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
        self._error = ""
        self._hide: _Hide = redact
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
        if self._client is None:
            raise ToolError(f"the server ended: {self._failure()}")
        try:
            request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments)))
            # `call_tool` would discard a result that does not match the server's own output schema.
            result = await self._client.session.send_request(request, _RESULT)
        except MCPError as error:
            if self.is_closed or error.error.message == CLOSED:
                await self._wait_closed()
                raise ToolError(f"the server ended before it answered: {self._failure()}") from None
            if error.error.message == "Session terminated":
                raise SessionForgotten from None
            raise ToolError(first_line([error.error.message, f"error {error.error.code}"], self._hide)) from None
        except ValidationError as error:
            raise ToolError(violation("its answer is", error, self._hide)) from None
        if isinstance(result, types.InputRequiredResult):
            raise ToolError("the server asks for more input, and there is nobody to ask")
        return self._hide(text_of(result))

    async def close(self) -> None:
        """Close the session and stop the server's process."""
        if not self._listing.done():
            self._task.cancel()
        await self._wait_closed()

    async def _wait_closed(self) -> None:
        self._closed.set()
        await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT)

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
        limit = asyncio.timeout(server.timeout)
        try:
            async with limit:
                # All servers support the legacy handshake, and some exit immediately on the new one.
                for mode in ("auto",) if server.url else ("legacy", "auto"):
                    try:
                        return await self._serve(server, mode, limit)
                    except Exception as error:
                        code = getattr(cause(error), "code", None)
                        if mode == "auto" or self._listing.done() or code != types.UNSUPPORTED_PROTOCOL_VERSION:
                            raise
        except BaseException:
            if limit.expired():
                raise Unreachable(f"it did not tell its tools within {server.timeout:g} seconds") from None
            raise

    async def _serve(self, server: ServerConfig, mode: str, limit: asyncio.Timeout) -> None:
        """Serve calls until either side closes the session.

        limit: timeout that applies until the tools are listed.
        """
        transport = self._transport_of(server)
        self._transport = transport
        self._closed.clear()  # an earlier attempt may have ended
        invalid = _InvalidTools()
        connected = invalid.removed_from(transport.connected())
        client_info = types.Implementation(name="run-specialist", version=release())
        async with Client(connected, client_info=client_info, mode=mode, cache=None) as client:
            listing = await _list_tools(client, invalid, self._hide)
            limit.reschedule(None)
            self._client = client
            self._listing.set_result(listing)
            await self._closed.wait()

    def _transport_of(self, server: ServerConfig) -> ServerProcess | Web:
        if server.url is not None:
            return Web(server.url, dict(server.headers), loopback=server.is_loopback)
        # Python then ignores compiled modules of the project, which may differ from the source that was trusted.
        compiled = platformdirs.user_cache_path("run-specialist", appauthor=False) / "pycache"
        environment = get_default_environment() | {"PYTHONPYCACHEPREFIX": str(compiled)} | dict(server.env)
        folder = self._root / (server.cwd or "")
        if not folder.is_dir():
            raise Unreachable(f"there is no folder {folder}")
        return ServerProcess(server.command or (), environment, str(folder), self._closed.set)

    def _failure(self) -> str:
        last = self._transport.failure(self._hide) if self._transport else ""
        return f"{self._error} ({last})" if self._error and last else self._error or last or "the connection was closed"


async def _list_tools(client: Client, invalid: _InvalidTools, hide: _Hide) -> Listing:
    tools: list[types.Tool] = []
    cursor: str | None = None
    invalid.version = client.protocol_version
    for _ in range(MOST_PAGES):
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        try:
            page = await client.session.list_tools(params=params)
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


LONGEST_RESULT = 2_000_000
"""Maximum length of a result; the rest is dropped to save memory and storage [characters]."""


def text_of(result: types.CallToolResult) -> str:
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
    kind, inner = block["type"], block.get("resource", block)
    if kind == "text":
        return str(block["text"])
    if kind == "resource_link":
        about = [block.get("title") or block.get("name"), block.get("description"), block.get("uri")]
        return f"[resource: {', '.join(_label(word) for word in about if word)}]"
    if "text" in inner:
        return f"[resource: {_label(inner.get('uri'))}]\n{inner['text']}"
    what = kind if kind in {"image", "audio"} else f"resource {_label(inner.get('uri'))}"
    data = inner.get("data", inner.get("blob"))
    size = f", {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    return f"[left out, since only text is read: {what}, {_label(inner.get('mimeType'))}{size}]"


def _label(word: object) -> str:
    return shown(str(word)) if word else "of an unknown kind"
