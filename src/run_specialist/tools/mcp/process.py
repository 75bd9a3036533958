"""Process of an MCP server: size-limited messages over its pipes, and reliable termination."""

import asyncio
import atexit
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from run_specialist.specialist.problems import shown
from run_specialist.tools.mcp.json_messages import parse, read_line
from run_specialist.tools.mcp.server_errors import Hide

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    Streams = tuple[MemoryObjectReceiveStream["SessionMessage | Exception"], MemoryObjectSendStream["SessionMessage"]]

LARGEST_MESSAGE = 10 * 1024 * 1024
"""Maximum size of one line; a server that sends a longer one is stopped [bytes]."""
EXIT_GRACE, TERM_GRACE = 1.0, 1.0
"""Grace periods for a server to exit after its input was closed, and after a SIGTERM [s]."""

_STDERR_TAIL = 4096
_DRAIN_TIMEOUT = 0.2
_LONGEST_SHOWN = 300
_POLL = 0.01
_USE_GROUPS = os.name == "posix"
_running: set[int] = set()
"""Process groups that were started and not yet stopped."""


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
        self._read_task: asyncio.Task[None] | None = None

    def failure(self, hide: Hide) -> str:
        """Return how the process ended on its own, and the last line of its standard error; may be empty."""
        lines = [line for line in self._stderr.decode(errors="replace").splitlines() if line.strip()]
        last_line = shown(" ".join(hide(lines[-1]).split()), _LONGEST_SHOWN) if lines else ""
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

        # Register it only once.
        atexit.unregister(kill_all)
        atexit.register(kill_all)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _ExitWatcher(LARGEST_MESSAGE, loop, self._on_exit),
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(self._environment),
            cwd=self._folder,
            # Ctrl-C must not stop the servers: the run needs them until it has landed.
            start_new_session=_USE_GROUPS,
        )
        process = Process(transport, protocol, loop)
        _running.add(process.pid)
        to_reader, reader = anyio.create_memory_object_stream[Any](0)
        writer, from_writer = anyio.create_memory_object_stream[Any](0)
        tasks = [
            asyncio.create_task(one)
            for one in (self._read(process, to_reader), self._write(process, from_writer), self._read_stderr(process))
        ]
        self._read_task = tasks[0]
        if self._ended_early:
            # It exited before there was a task to stop.
            self._on_exit()
        try:
            yield reader, writer
        finally:
            # A cancellation still lets the process exit gracefully; a second one kills it.
            with anyio.CancelScope(shield=True):
                try:
                    await self._stop(process, tasks[-1])
                finally:
                    _kill(process.pid)
                    _running.discard(process.pid)
                    transport.close()
                    for stream in (to_reader, reader, writer, from_writer):
                        stream.close()
                    for task in tasks:
                        task.cancel()
                    await asyncio.wait(tasks)

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

    def _on_exit(self) -> None:
        if not self._closing:
            self._ended_early = True
            if self._read_task is not None:
                # Its last output is still read.
                asyncio.get_running_loop().call_later(_DRAIN_TIMEOUT, self._read_task.cancel)

    async def _read_stderr(self, process: Process) -> None:
        assert process.stderr is not None  # noqa: S101 - as above
        while chunk := await process.stderr.read(_STDERR_TAIL):
            self._stderr = (self._stderr + chunk)[-_STDERR_TAIL:]

    async def _stop(self, process: Process, stderr_task: "asyncio.Task[None]") -> None:
        self._closing = True
        assert process.stdin is not None  # noqa: S101 - as above
        process.stdin.close()
        if self._fault or not await _exits_within(process, EXIT_GRACE):
            _signal(process.pid, signal.SIGTERM)
            if not await _exits_within(process, TERM_GRACE):
                _kill(process.pid)
                await _exits_within(process, TERM_GRACE)
        elif self._ended_early:
            self._exit_code = process.returncode
            # A child of the server may keep the pipe open.
            await asyncio.wait([stderr_task], timeout=_DRAIN_TIMEOUT)


class _ExitWatcher(SubprocessStreamProtocol):
    """Reports the exit of the process even if a child of it keeps the pipes open."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
        super().__init__(limit, loop)
        self._on_exit = on_exit

    def process_exited(self) -> None:
        super().process_exited()
        self._on_exit()


async def _exits_within(process: Process, seconds: float) -> bool:
    """Wait for the process only, since a child of it may keep the pipes open; return False after a timeout [s]."""
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_POLL)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if _USE_GROUPS:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _kill(pid: int) -> None:
    _signal(pid, signal.SIGKILL if _USE_GROUPS else signal.SIGTERM)


def kill_all() -> None:
    """Kill all servers immediately, at the end of the program."""
    for pid in _running:
        _kill(pid)
