"""The stdio transport, which reserves standard input and output for the protocol."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

from run_specialist.mcp_server.line_reader import LineReader, TooLong
from run_specialist.tools.mcp.surrogates import replace_lone_surrogates
from run_specialist.tools.threads import in_thread

CHUNK = 65_536
LONGEST_LINE = 4 * 1024 * 1024
"""Maximum length of a message, as over HTTP; longer messages are skipped [bytes]."""
PATIENCE = 2.0
"""Time for pending messages after the client has closed standard input; it may have stopped reading [s]."""


class Stdio:
    """Serves one client over standard input and output."""

    def __init__(self, say: Callable[[str], None] = print) -> None:
        """Reserve both streams: other code then reads end-of-file, and its output goes to standard error.

        say: prints a message for the user.
        """
        self._say = say
        if sys.stdout is not None:
            sys.stdout.flush()
        self._input = _reserve(0, lambda: os.open(os.devnull, os.O_RDONLY))
        self._output = _reserve(1, _standard_error)
        self._scope = anyio.CancelScope()

    async def serve(self, server: Server[Any], ready: Callable[[str], None]) -> None:
        """Serve until the client closes standard input, or `stop` is called."""
        ready("standard input and output")
        with self._scope:
            # Reads and writes run in daemon threads: blocked threads of the library would prevent the program's exit.
            streams = stdio_server(cast("Any", self._lines()), cast("Any", self))
            async with streams as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

    def stop(self) -> None:
        """Make `serve` return."""
        self._scope.cancel()

    async def write(self, text: str) -> None:
        """Write a message; stop the server if the client has closed its end."""
        try:
            await in_thread(partial(_write, self._output, text.encode("utf-8", "replace")))
        except OSError:
            self.stop()

    async def flush(self) -> None:
        """Do nothing, because `write` is unbuffered."""

    async def _lines(self) -> AsyncIterator[str]:
        reader = LineReader(LONGEST_LINE)
        while chunk := await in_thread(partial(_read, self._input)):
            for line in reader.feed(chunk):
                if isinstance(line, TooLong):
                    await self._refuse(line)
                else:
                    yield replace_lone_surrogates(line).decode("utf-8", "replace")
        asyncio.get_running_loop().call_later(PATIENCE, self.stop)

    async def _refuse(self, line: TooLong) -> None:
        """Report a skipped message to the user and, if its request id is known, to the client, which awaits a reply."""
        self._say(f"warning: skipped a message of more than {LONGEST_LINE} bytes")
        if line.request_id is not None:
            reason = f"a message may have {LONGEST_LINE} bytes; this one was longer and was not read"
            data = ErrorData(code=INVALID_REQUEST, message=reason)
            error = JSONRPCError(jsonrpc="2.0", id=line.request_id, error=data)
            await self.write(error.model_dump_json(by_alias=True, exclude_unset=True) + "\n")


def _reserve(number: int, open_replacement: Callable[[], int]) -> int:
    """Return a private duplicate of a standard descriptor, and redirect the original."""
    private = os.dup(number)
    other = open_replacement()
    os.dup2(other, number, inheritable=True)
    os.close(other)
    return private


def _standard_error() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _read(descriptor: int) -> bytes:
    with suppress(OSError):
        return os.read(descriptor, CHUNK)
    return b""


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
