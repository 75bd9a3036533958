"""Connect to MCP servers by pipes or HTTP, and describe their errors."""

import asyncio
import json
import math
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from run_specialist.safety.redact import redact
from run_specialist.specialist.problems import shown
from run_specialist.tools.threads import KILL, exits_within, running, signal_group

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage
    from pydantic import ValidationError


CLOSED = "Connection closed"
"""Message of the library for a closed connection."""

Hide = Callable[[str], str]
"""Masks secrets; applied before truncation, since a truncated key would not be recognized."""

_LONGEST = 300
_VALIDATION_DETAILS = re.compile(r":\s*\d+ validation errors? for .*", re.DOTALL)


class Unreachable(Exception):
    """A server is unavailable; `str(error)` is the reason, on one line."""


def first_line(texts: Iterable[str], hide: Hide = redact) -> str:
    """Return the first nonempty text as one printable line, without secrets and validation details."""
    one = next((text for text in texts if text.strip()), "")
    return shown(" ".join(hide(_VALIDATION_DETAILS.sub("", one)).split()), _LONGEST)


def violation(what: str, error: "ValidationError", hide: Hide, *, within: int = 0) -> str:
    """Return where a response of the server violates the protocol.

    what: subject and verb of the sentence.
    within: number of leading location parts that `what` already names.
    """
    wrong = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in wrong["loc"][within:])
    return first_line([": ".join(filter(None, [f"{what} not what the protocol wants", place, wrong["msg"]]))], hide)


def cause(error: BaseException) -> BaseException:
    """Return the first error of nested exception groups, in which the library's tasks wrap errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def describe(error: BaseException, hide: Hide) -> str:
    """Return an error as one line; empty if the connection was merely closed."""
    error = cause(error)
    text = first_line([str(error)], hide)
    if text == CLOSED:
        return ""
    if isinstance(error, FileNotFoundError):
        return f"there is no program {first_line([str(error.filename)], hide)}"
    if isinstance(error, OSError) and error.filename:
        return f"{first_line([str(error.filename)], hide)} cannot be started: {error.strerror}"
    if isinstance(error, Unreachable | ValueError) or type(error).__name__ == "MCPError":
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


TO_CONNECT = 10.0
"""Connect timeout; the timeout of a response is set by its caller [s]."""

_FIRST_ERROR_STATUS = 400


class Web:
    """Streamable HTTP transport that remembers the last HTTP error status."""

    def __init__(self, url: str, headers: Mapping[str, str], *, loopback: bool) -> None:
        """Create a transport without connecting.

        loopback: the server is on this machine; proxies from the environment are then ignored.
        """
        self._url = url
        self._headers = headers
        self._loopback = loopback
        self._http_error = ""

    def failure(self, hide: Hide) -> str:
        """Return the last HTTP error status; empty if there is none."""
        return hide(self._http_error)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """Connect and yield the incoming and outgoing message streams."""
        import httpx2  # noqa: PLC0415 - slow to import
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - as above

        async with (
            httpx2.AsyncClient(
                # The decompressed size of a compressed response could not be limited.
                headers={**self._headers, "accept-encoding": "identity"},
                timeout=httpx2.Timeout(TO_CONNECT, read=None),
                event_hooks={"response": [self._check_response]},
                trust_env=not self._loopback,
            ) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=LARGEST_MESSAGE) as streams,
        ):
            yield streams

    async def _check_response(self, response: "httpx2.Response") -> None:
        import httpx2  # noqa: PLC0415 - already loaded by `connected`

        # Servers need not support the stream that the library requests with GET.
        if response.status_code >= _FIRST_ERROR_STATUS and response.request.method == "POST":
            self._http_error = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.StreamError("its answer is compressed, which was not asked for")
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            response.stream = _size_limited(response.stream)


def _size_limited(stream: Any) -> "httpx2.AsyncByteStream":  # noqa: ANN401 - a private type of the library
    import httpx2  # noqa: PLC0415 - as above

    class SizeLimited(httpx2.AsyncByteStream):
        """Response body that raises StreamError once it is too large."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in stream:
                size += len(part)
                if size > LARGEST_MESSAGE:
                    raise httpx2.StreamError(f"it is larger than {LARGEST_MESSAGE // 1024**2} MiB")
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    return SizeLimited()


if TYPE_CHECKING:
    Streams = tuple[MemoryObjectReceiveStream["SessionMessage | Exception"], MemoryObjectSendStream["SessionMessage"]]

LARGEST_MESSAGE = 10 * 1024 * 1024
"""Maximum size of one line; a server that sends a longer one is stopped [bytes]."""
EXIT_GRACE, TERM_GRACE = 1.0, 1.0
"""Grace periods for a server to exit after its input was closed, and after a SIGTERM [s]."""

_STDERR_TAIL = 4096
_DRAIN_TIMEOUT = 0.2
_POLL = 0.1


class ServerProcess:
    """Process that exchanges messages line by line; its standard error never reaches the terminal."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str, on_end: Callable[[], None]
    ) -> None:
        """Set up a process without starting it.

        environment: all of its environment variables.
        on_end: callback for when the process can send no more messages.
        """
        self._command = command
        self._environment = environment
        self._folder = folder
        self._on_end = on_end
        self._fault = ""
        self._stderr = b""
        self._closing = False
        self._ended_early = False
        self._exit_code: int | None = None

    def failure(self, hide: Hide) -> str:
        """Return how the process ended on its own, and the last line of its standard error; may be empty."""
        last_line = first_line(reversed(self._stderr.decode(errors="replace").splitlines()), hide)
        if self._fault or not self._ended_early:
            return self._fault or (last_line and f"its last words: {last_line}")
        code = self._exit_code
        how = "closed its output" if code is None else f"exited with code {code}" if code >= 0 else "was killed"
        return f"it {how}{f', saying: {last_line}' if last_line else ''}"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["Streams"]:
        """Start the process and yield its incoming and outgoing message streams; on exit, kill its process group.

        Raises OSError or ValueError if it cannot be started.
        """
        import anyio  # noqa: PLC0415 - needed only with a server

        options = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, "env": dict(self._environment), "cwd": self._folder}
        async with running(self._command, LARGEST_MESSAGE, **options) as process:
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
                        signal_group(process.pid, KILL)
                        for stream in (to_reader, reader, writer, from_writer):
                            stream.close()
                        for task in tasks:
                            task.cancel()
                        await asyncio.wait(tasks)

    async def _watch(self, process: Process, reading: "asyncio.Task[None]") -> None:
        """Stop reading once the process has exited, even if a child of it keeps the pipes open."""
        await exits_within(process, math.inf, _POLL)
        self._ended_early |= not self._closing
        # Its last output is still read.
        await asyncio.wait([reading], timeout=_DRAIN_TIMEOUT)
        reading.cancel()

    async def _read(self, process: Process, messages: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        """Forward the server's messages; ignore lines that are not messages."""
        import anyio  # noqa: PLC0415 - as above

        assert process.stdout is not None  # noqa: S101 - stdout is a pipe
        try:
            while line := await read_line(process.stdout):
                if message := parse(line):
                    await messages.send(message)
            self._ended_early |= not self._closing
        except asyncio.LimitOverrunError:
            self._fault = f"it sent more than {LARGEST_MESSAGE // 1024**2} MiB in one message, and was stopped"
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            messages.close()
            self._on_end()

    async def _write(self, process: Process, messages: "MemoryObjectReceiveStream[SessionMessage]") -> None:
        import anyio  # noqa: PLC0415 - as above

        assert process.stdin is not None  # noqa: S101 - as above
        with suppress(OSError, anyio.ClosedResourceError):
            async for one in messages:
                process.stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()
            return
        # Its earlier answers may still be in the pipe.
        await asyncio.sleep(EXIT_GRACE)
        self._fault = "it takes no more requests"
        self._on_end()

    async def _read_stderr(self, process: Process) -> None:
        assert process.stderr is not None  # noqa: S101 - as above
        while chunk := await process.stderr.read(_STDERR_TAIL):
            self._stderr = (self._stderr + chunk)[-_STDERR_TAIL:]

    async def _stop(self, process: Process, stderr_task: "asyncio.Task[None]") -> None:
        self._closing = True
        assert process.stdin is not None  # noqa: S101 - as above
        process.stdin.close()
        if self._fault or not await exits_within(process, EXIT_GRACE):
            signal_group(process.pid, signal.SIGTERM)
            if not await exits_within(process, TERM_GRACE):
                signal_group(process.pid, KILL)
                await exits_within(process, TERM_GRACE)
        elif self._ended_early:
            self._exit_code = process.returncode
            # A child of the server may keep the pipe open.
            await asyncio.wait([stderr_task], timeout=_DRAIN_TIMEOUT)


async def read_line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line; empty at the end of the stream.

    Raises LimitOverrunError for a line that is too long.
    """
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial


def parse(line: bytes) -> "SessionMessage | None":
    """Parse a line; an invalid response becomes an error response, and any other invalid line becomes None."""
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - slow to import
    from mcp.types import JSONRPCError, jsonrpc_message_adapter  # noqa: PLC0415 - as above

    line = replace_lone_surrogates(line)
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        pass
    # It may be an invalid response, for which the request must not wait any longer.
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    number = content.get("id") if isinstance(content, dict) and "method" not in content else None
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    error = {"code": -32700, "message": "its answer is no valid message"}
    return SessionMessage(JSONRPCError.model_validate({"jsonrpc": "2.0", "id": number, "error": error}))


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
