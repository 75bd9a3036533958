"""A fork server: it starts programs from a process with all imports done, ten times faster."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

PROGRAM = Path(__file__).with_name("program.py")
PATIENCE = 120.0
"""Timeout, after which a hanging program fails the test [s]."""


def _bare() -> dict[str, str]:
    """Return the environment without the user's keys, endpoints and store."""
    foreign = ("ANTHROPIC_", "OPENAI_", "SPECIALIST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"PYTHONPATH": str(PROGRAM.parents[2])}


class Forked:
    """A forked program with the interface of `subprocess.Popen`."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line = line
        self.pid = pid
        self.is_awaited = False
        """Whether the server has sent its exit code."""

    def send_signal(self, number: int) -> None:
        """Send a signal; safe after the process has ended, because `wait` has not reaped it yet."""
        os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        """Wait for the process to end; return its exit code, or minus the number of the signal that killed it."""
        self._line.settimeout(timeout)
        self._line.send(b".")
        code = int(self._line.recv(16))
        self.is_awaited = True
        return code


class ForkServer:
    """Starts programs one after another; a context manager."""

    def __enter__(self) -> Self:
        self._last: Forked | None = None
        self._parts = ExitStack()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line = self._parts.enter_context(ours)
        command = [sys.executable, "-W", "error", str(PROGRAM), "fork-server", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=_bare())
        theirs.close()
        return self

    def start(self, command: Sequence[str], where: Path, env: Mapping[str, str], fds: Sequence[int]) -> Forked:
        """Start a program.

        env: Variables in addition to those of the fork server.
        fds: Descriptors for its output, its errors, and its reports of tool calls.
        """
        if self._last is not None and not self._last.is_awaited:
            # A test was ended while it waited: the server would take the next message for the end of this wait.
            self.__exit__()
            self.__enter__()
        message: dict[str, Any] = {"command": command, "where": str(where), "env": env}
        self._line.settimeout(PATIENCE)
        socket.send_fds(self._line, [json.dumps(message).encode()], fds)
        self._last = Forked(self._line, int(self._line.recv(16)))
        return self._last

    def __exit__(self, *_: object) -> None:
        self._parts.close()
        if self._last is not None and not self._last.is_awaited:
            self._process.kill()
        self._process.wait(PATIENCE)


class Single:
    """Starts each program in its own interpreter, as users do; a replacement for the fork server."""

    def __enter__(self) -> Self:
        return self

    def start(
        self, command: Sequence[str], where: Path, env: Mapping[str, str], fds: Sequence[int]
    ) -> "subprocess.Popen[bytes]":
        """Start a program; see `ForkServer.start`."""
        return subprocess.Popen(
            [sys.executable, "-W", "error", str(PROGRAM), *command],
            cwd=where,
            env={**_bare(), **env, "TOLD_BY": str(fds[2])},
            stdout=fds[0],
            stderr=fds[1],
            pass_fds=[fds[2]],
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing: there is nothing to close."""


Start = ForkServer | Single
KILLED = -signal.SIGKILL
