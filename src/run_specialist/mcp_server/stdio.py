"""Standard input and output as the wires of a server: nothing but the protocol passes over them."""

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
"""A longer message is passed over, as over HTTP [bytes]."""
PATIENCE = 2.0
"""So long what is on its way may take when the client has closed its end, and may have stopped reading [s]."""


class Stdio:
    """Serves the one client at the other end of standard input and output."""

    def __init__(self, say: Callable[[str], None] = print) -> None:
        """Take both streams away: whatever else reads finds an end, and whatever else prints goes to standard error.

        say: tells a line to who started the server.
        """
        self._say = say
        if sys.stdout is not None:
            sys.stdout.flush()
        self._input = _taken(0, lambda: os.open(os.devnull, os.O_RDONLY))
        self._output = _taken(1, _standard_error)
        self._scope = anyio.CancelScope()

    async def serve(self, server: Server[Any], ready: Callable[[str], None]) -> None:
        """Serve until the client closes its end, or `stop`."""
        ready("standard input and output")
        with self._scope:
            # Threads of our own read and write: the library's keep a program from ending while they wait.
            streams = stdio_server(cast("Any", self._lines()), cast("Any", self))
            async with streams as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

    def stop(self) -> None:
        """Let `serve` return."""
        self._scope.cancel()

    async def write(self, text: str) -> None:
        """Write a message; where nobody reads any more, end."""
        try:
            await in_thread(partial(_write, self._output, text.encode("utf-8", "replace")))
        except OSError:
            self.stop()

    async def flush(self) -> None:
        """Do nothing: what was written is on its way."""

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
        """Say that a message was passed over: to the user, and where its id is known to the client, which waits."""
        self._say(f"warning: a message of more than {LONGEST_LINE} bytes was passed over")
        if line.request_id is not None:
            why = f"a message may have {LONGEST_LINE} bytes; this one was longer and was not read"
            error = JSONRPCError(jsonrpc="2.0", id=line.request_id, error=ErrorData(code=INVALID_REQUEST, message=why))
            await self.write(error.model_dump_json(by_alias=True, exclude_unset=True) + "\n")


def _taken(number: int, instead: Callable[[], int]) -> int:
    """Return a private descriptor for a standard stream, whose number leads elsewhere from now on."""
    private = os.dup(number)
    other = instead()
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
