"""Standard input and output as the wires of a server: nothing but the protocol passes over them."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from run_specialist.tools.mcp.signs import whole_signs
from run_specialist.tools.threads import in_thread

CHUNK = 65_536
LONGEST_LINE = 4 * 1024 * 1024
"""A longer message is passed over, as over HTTP [bytes]."""
PATIENCE = 2.0
"""So long what is on its way may take when the client has closed its end, and may have stopped reading [s]."""

_log = logging.getLogger(__name__)


class Stdio:
    """Serves the one client at the other end of standard input and output."""

    def __init__(self) -> None:
        """Take both streams away: whatever else reads finds an end, and whatever else prints goes to standard error."""
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
        rest, is_too_long = b"", False
        while chunk := await in_thread(partial(_read, self._input)):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if not is_too_long:
                    yield whole_signs(line).decode("utf-8", "replace")
                is_too_long = False
            if len(rest) > LONGEST_LINE:
                _log.warning("a message of more than %s bytes was passed over", LONGEST_LINE)
                rest, is_too_long = b"", True
        asyncio.get_running_loop().call_later(PATIENCE, self.stop)


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
