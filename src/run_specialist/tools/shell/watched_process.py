"""The events of a process that runs: output, too much of it, the end."""

import asyncio

from run_specialist.tools.shell.kept_output import KeptOutput

MOST_OUTPUT = 64 * 1024**2
"""Maximum output of one command [bytes]."""

_DRAINED_WITHIN = 1.0


class WatchedProcess(asyncio.SubprocessProtocol):
    """Collects the output of a process as it comes, and notes its end."""

    def __init__(self, output: KeptOutput, loop: asyncio.AbstractEventLoop) -> None:
        self._output = output
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done once no process has the pipe."""
        self.ready: asyncio.Future[None] = loop.create_future()
        """Done once the shell in the sandbox has said so, by a NUL before all output."""
        self.flooded: asyncio.Future[None] = loop.create_future()
        """Done once there is too much output."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - there is one pipe
        """Take output, without the NUL that says that the shell is ready."""
        if not self.ready.done():
            before, mark, rest = data.partition(b"\0")
            data = before + rest
            if mark:
                _set(self.ready)
        self._output.add(data)
        if self._output.total > MOST_OUTPUT:
            _set(self.flooded)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - as above
        """Note that no process has the pipe."""
        _set(self.closed)

    def process_exited(self) -> None:
        """Note that the process has ended."""
        _set(self.exited)

    async def ended(self) -> None:
        """Wait for the end of the process and of its output, which a process that it left behind may keep open."""
        await asyncio.wait([self.exited])
        await asyncio.wait([self.closed], timeout=_DRAINED_WITHIN)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
