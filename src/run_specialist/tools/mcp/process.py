"""The process of an MCP server: messages over its pipes, with a bound on each, and no trace of it afterwards."""

import asyncio
import atexit
import json
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from run_specialist.specialist.problems import shown
from run_specialist.tools.mcp.server_errors import Hide
from run_specialist.tools.mcp.surrogates import whole_signs

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    Streams = tuple[MemoryObjectReceiveStream["SessionMessage | Exception"], MemoryObjectSendStream["SessionMessage"]]

LARGEST_MESSAGE = 10 * 1024 * 1024
"""Bytes of one line; a server that sends a longer one is stopped, since what follows cannot be told apart."""
TO_LEAVE, TO_OBEY = 1.0, 1.0
"""What a server gets to end by itself when its input is closed, and after a SIGTERM [s]."""

_LAST_WORDS = 4096
_FOR_LAST_WORDS = 0.2
_LONGEST_SHOWN = 300
_POLL = 0.01
_OWN_GROUP = os.name == "posix"
_alive: set[int] = set()
"""Process groups that were started and not yet seen off."""


class ServerProcess:
    """A process that is spoken to line by line; whatever it writes beside messages never reaches our terminal."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str, ended: Callable[[], None]
    ) -> None:
        """Take what is started.

        environment: all variables that it gets.
        ended: told once when nothing more can come from it.
        """
        self._command = command
        self._environment = environment
        self._folder = folder
        self._ended = ended
        self._trouble = ""
        self._said = b""
        self._seen_off = False
        self._left = False
        self._code: int | None = None
        self._reading: asyncio.Task[None] | None = None

    def last_words(self, hide: Hide) -> str:
        """How it ended by itself, and the last line that it wrote to its standard error; empty where there is none."""
        lines = [line for line in self._said.decode(errors="replace").splitlines() if line.strip()]
        said = shown(" ".join(hide(lines[-1]).split()), _LONGEST_SHOWN) if lines else ""
        if self._trouble or not self._left:
            return self._trouble or (said and f"its last words: {said}")
        code = self._code
        how = "closed its output" if code is None else f"exited with code {code}" if code >= 0 else "was killed"
        return f"it {how}{f', saying: {said}' if said else ''}"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["Streams"]:
        """Start it and give the streams of messages from it and to it; no process of its group is left at the end.

        Raises OSError or ValueError where it cannot be started.
        """
        import anyio  # noqa: PLC0415 - only where a server is used

        # Registered once, however often.
        atexit.unregister(kill_all)
        atexit.register(kill_all)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Watched(LARGEST_MESSAGE, loop, self._exited),
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(self._environment),
            cwd=self._folder,
            # Ctrl-C is for us: the servers are needed until the run has landed.
            start_new_session=_OWN_GROUP,
        )
        process = Process(transport, protocol, loop)
        _alive.add(process.pid)
        to_reader, reader = anyio.create_memory_object_stream[Any](0)
        writer, from_writer = anyio.create_memory_object_stream[Any](0)
        work = [
            asyncio.create_task(one)
            for one in (self._read(process, to_reader), self._write(process, from_writer), self._listen(process))
        ]
        self._reading = work[0]
        if self._left:
            # It was gone before there was a reader to stop.
            self._exited()
        try:
            yield reader, writer
        finally:
            # Whatever cancels us, the process is seen off; who cancels once more has it killed.
            with anyio.CancelScope(shield=True):
                try:
                    await self._see_off(process, work[-1])
                finally:
                    _kill(process.pid)
                    _alive.discard(process.pid)
                    transport.close()
                    for stream in (to_reader, reader, writer, from_writer):
                        stream.close()
                    for task in work:
                        task.cancel()
                    await asyncio.wait(work)

    async def _read(self, process: Process, messages: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        """Pass on what the server writes; lines that are no message are nobody's business."""
        import anyio  # noqa: PLC0415 - as above

        assert process.stdout is not None  # noqa: S101 - there is a pipe
        try:
            while line := await _line(process.stdout):
                if message := _message(line):
                    await messages.send(message)
            self._left |= not self._seen_off
        except asyncio.LimitOverrunError:
            self._trouble = f"it sent more than {LARGEST_MESSAGE // 1024**2} MiB in one message, and was stopped"
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            messages.close()
            self._ended()

    async def _write(self, process: Process, messages: "MemoryObjectReceiveStream[SessionMessage]") -> None:
        import anyio  # noqa: PLC0415 - as above

        assert process.stdin is not None  # noqa: S101 - as above
        with suppress(OSError, anyio.ClosedResourceError):
            async for one in messages:
                process.stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()
            return
        # What it said before is still on its way.
        await asyncio.sleep(TO_LEAVE)
        self._trouble = "it takes no more requests"
        self._ended()

    def _exited(self) -> None:
        if not self._seen_off:
            self._left = True
            if self._reading is not None:
                # What it said last is still read.
                asyncio.get_running_loop().call_later(_FOR_LAST_WORDS, self._reading.cancel)

    async def _listen(self, process: Process) -> None:
        assert process.stderr is not None  # noqa: S101 - as above
        while said := await process.stderr.read(_LAST_WORDS):
            self._said = (self._said + said)[-_LAST_WORDS:]

    async def _see_off(self, process: Process, listening: "asyncio.Task[None]") -> None:
        self._seen_off = True
        assert process.stdin is not None  # noqa: S101 - as above
        process.stdin.close()
        if self._trouble or not await _gone(process, TO_LEAVE):
            _signal(process.pid, signal.SIGTERM)
            if not await _gone(process, TO_OBEY):
                _kill(process.pid)
                await _gone(process, TO_OBEY)
        elif self._left:
            self._code = process.returncode
            # A child of its own may keep the pipe open.
            await asyncio.wait([listening], timeout=_FOR_LAST_WORDS)


class _Watched(SubprocessStreamProtocol):
    """Tells when the process is gone, also where a child of its own keeps the pipes open."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop, exited: Callable[[], None]) -> None:
        super().__init__(limit, loop)
        self._exited = exited

    def process_exited(self) -> None:
        super().process_exited()
        self._exited()


async def _line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line; empty at the end. Raises LimitOverrunError for one that is too long."""
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial


def _message(line: bytes) -> "SessionMessage | None":
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - a heavy library
    from mcp.types import JSONRPCError, jsonrpc_message_adapter  # noqa: PLC0415 - likewise

    line = whole_signs(line)
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # An answer that breaks the protocol is still an answer: nobody shall wait for another one.
        number = _answered(line)
    if number is None:
        return None
    error = {"code": -32700, "message": "its answer is no valid message"}
    return SessionMessage(JSONRPCError.model_validate({"jsonrpc": "2.0", "id": number, "error": error}))


def _answered(line: bytes) -> int | None:
    """Return which of our requests a line that is no valid message means to answer."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    number = read.get("id") if isinstance(read, dict) and "method" not in read else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


async def _gone(process: Process, seconds: float) -> bool:
    """Wait for the process alone: one that it started may keep its pipes open."""
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_POLL)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if _OWN_GROUP:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _kill(pid: int) -> None:
    _signal(pid, signal.SIGKILL if _OWN_GROUP else signal.SIGTERM)


def kill_all() -> None:
    """Kill all servers at once: the program ends."""
    for pid in _alive:
        _kill(pid)
