"""Run one sandboxed command: limit its output, count its processes, and end all of them with the call.

The kernel ends the sandbox with this program, but only after `bwrap` has requested that. The command waits until then,
so it never runs if this program is killed before.
"""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run_specialist.tools.shell.kept_output import KeptOutput
from run_specialist.tools.shell.usage import MOST_TASKS, MemoryGroup, SandboxUsage
from run_specialist.tools.shell.watched_process import MOST_OUTPUT, WatchedProcess

MEMORY = 2 * 1024**3
"""Maximum memory of all processes of one command, without folders in memory [bytes]."""
FOLDERS = 320 * 1024**2
"""Total size of its folders in memory, /tmp and /dev/shm [bytes]."""

_STATUS = 4_096
_POLL = 0.02
_GONE_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class CommandExit:
    """How a command ended."""

    exit_code: int | None
    """Exit code; None if it was stopped, or if there was no sandbox for it."""
    stopped: str = ""
    """Why it was stopped, as a clause; empty if it ended by itself."""


class SandboxedProcess:
    """One command in its sandbox."""

    def __init__(self, output: KeptOutput, *, has_status: bool = True) -> None:
        """Set up a process without starting it.

        output: takes standard output and standard error.
        has_status: whether the sandbox reports its first process and the exit code, as `bwrap` does.
        """
        self._output = output
        self._reading: int | None = None
        self.status = -1
        """Descriptor to which the sandbox writes."""
        if has_status:
            self._reading, self.status = os.pipe()
            os.set_blocking(self._reading, False)
        self._said = b""
        self._init: int | None = None
        self._usage = SandboxUsage(MEMORY, FOLDERS)
        self._group = MemoryGroup.make(MEMORY + FOLDERS) if has_status else None
        self._held: int | None = None
        """Descriptor of the sandbox's first process, without which no other process exists there."""

    async def run(
        self,
        command: Sequence[str],
        seconds: float,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        folder: Path = Path("/"),
    ) -> CommandExit:
        """Run a command; all its processes have ended when this returns or raises.

        seconds: maximum time.
        descriptors: those that the sandbox reads.
        environment: all variables; by default none, because the first process of a sandbox shows its own to all others.
        Raises OSError if it cannot be started.
        """
        standard_input, release = os.pipe()
        if self._group is not None and os.access(command[0], os.X_OK):
            command = self._group.entering(command)
        try:
            transport, watched = await self._start(command, standard_input, descriptors, environment, folder)
        except BaseException:
            self._close()
            os.close(release)
            raise
        finally:
            os.close(standard_input)
            if self._reading is not None:
                os.close(self.status)
        ended, watching = asyncio.ensure_future(watched.ended()), asyncio.ensure_future(self._watch())
        beginning = asyncio.ensure_future(self._begin(watched, transport.get_pid(), release))
        try:
            awaited: list[asyncio.Future[Any]] = [ended, watching, watched.flooded]
            done, _ = await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if self._group is not None and self._group.has_killed:
                return CommandExit(None, _too_much_memory())
            if ended in done:
                # The code of `bwrap` itself, or of its first process, says nothing about the command.
                return CommandExit(self._exit_code(transport.get_returncode()) if watched.ready.done() else None)
            if watched.flooded in done:
                return CommandExit(None, f"it wrote more than {MOST_OUTPUT // 1024**2} MB")
            return CommandExit(None, watching.result() if done else f"it took more than {seconds:.3g} seconds")
        finally:
            self._kill(transport.get_pid())
            for task in (ended, watching, beginning):
                task.cancel()
            await self._wait_until_gone(watched)
            transport.close()
            self._close()
            os.close(release)

    async def _start(
        self,
        command: Sequence[str],
        standard_input: int,
        descriptors: Sequence[int],
        environment: Mapping[str, str] | None,
        folder: Path,
    ) -> tuple[asyncio.SubprocessTransport, WatchedProcess]:
        loop = asyncio.get_running_loop()
        return await loop.subprocess_exec(
            lambda: WatchedProcess(self._output, loop),
            *command,
            stdin=standard_input,
            stdout=PIPE,
            stderr=STDOUT,
            env=dict(environment or {}),
            cwd=folder,
            pass_fds=(*descriptors, *(() if self._reading is None else (self.status,))),
            # Ctrl-C must not stop the command: the run does so.
            start_new_session=True,
        )

    async def _begin(self, watched: WatchedProcess, pid: int, release: int) -> None:
        """Let the command run, once the sandbox is bound to this program.

        release: descriptor to which a line is written; the command waits for it on its standard input.
        """
        await asyncio.wait([watched.ready])
        while True:
            if self._reading is None or self._is_bound(pid):
                break
            await asyncio.sleep(_POLL / 10)
        with suppress(OSError):
            os.write(release, b"\n")

    def _is_bound(self, pid: int) -> bool:
        """Return whether `bwrap` and the sandbox's first process wait, which they do only once everything is set up."""
        self._find_init()
        return self._init is not None and all(_state(one) == "S" for one in (pid, self._init))

    async def _watch(self) -> str:
        """Wait until the command must be stopped, and return the reason."""
        while True:
            self._find_init()
            if self._init is not None:
                tasks, memory = self._usage.measure(self._init)
                if tasks > MOST_TASKS:
                    return f"it had more than {MOST_TASKS} processes and threads"
                if memory > MEMORY or (self._group is not None and self._group.has_killed):
                    return _too_much_memory()
            await asyncio.sleep(_POLL)

    def _find_init(self) -> None:
        if self._reading is None:
            return
        with suppress(BlockingIOError):
            self._said += os.read(self._reading, _STATUS)
        if self._init is None and (found := _first(self._said, "child-pid")) is not None:
            with suppress(OSError):
                self._held = os.pidfd_open(found)
                self._init = found

    def _exit_code(self, code: int | None) -> int | None:
        """Return the exit code of the command; None if `bwrap` did not start it."""
        self._find_init()
        return code if self._reading is None else _first(self._said, "exit-code")

    def _close(self) -> None:
        if self._reading is not None:
            os.close(self._reading)
        if self._group is not None:
            self._group.remove()

    def _kill(self, pid: int) -> None:
        self._find_init()
        if self._held is not None:
            # Only root may do this, whose processes the kernel does not limit; among many it would wait for its turn.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._init or 0, -20)
            with suppress(OSError):
                signal.pidfd_send_signal(self._held, signal.SIGKILL)
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)

    async def _wait_until_gone(self, watched: WatchedProcess) -> None:
        await asyncio.wait([watched.exited], timeout=_GONE_WITHIN)
        if self._held is None:
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        try:
            # The kernel ends the first process of a namespace after all others.
            loop.add_reader(self._held, gone.set)
            with suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), _GONE_WITHIN)
        finally:
            loop.remove_reader(self._held)
            os.close(self._held)
            self._held = None


def _too_much_memory() -> str:
    return f"it used more than {MEMORY / 1024**3:.3g} GB of memory"


def _state(pid: int) -> str:
    """Return the state of a process as one letter, `S` for one that waits; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _first(said: bytes, key: str) -> int | None:
    """Return a value of the JSON documents that `bwrap` writes, one per line."""
    for line in said.splitlines():
        with suppress(ValueError):
            document = json.loads(line)
            if key in document:
                return int(document[key])
    return None
