"""Run tools in threads and processes that can be abandoned."""

import asyncio
import atexit
import contextvars
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

_T = TypeVar("_T")
# Process groups that were started and not yet stopped.
_running: set[int] = set()
# Set in threads of `in_thread`; cancelled once the caller has stopped waiting.
_ABANDONED: ContextVar[Future[None] | None] = ContextVar("abandoned", default=None)


def is_cancelled() -> bool:
    """Return whether this thread of `in_thread` was abandoned; always False in other threads."""
    abandoned = _ABANDONED.get()
    return abandoned is not None and abandoned.cancelled()


def check_cancelled() -> None:
    """Raise CancelledError in an abandoned thread of `in_thread`; do nothing in other threads.

    Long-running work calls this so that it does not continue in the background after a timeout.
    """
    if is_cancelled():
        raise asyncio.CancelledError


def when_cancelled(call: Callable[[], object]) -> None:
    """Register a callback that runs once this thread of `in_thread` is abandoned, or immediately if it already is.

    The callback also runs after the thread's result was returned, and never in other threads.
    """
    abandoned = _ABANDONED.get()
    if abandoned is not None:
        abandoned.add_done_callback(lambda _: call())


def within(seconds: float, function: Callable[[], _T]) -> _T:
    """Run a blocking function in a new thread, as `in_thread` does, and block until it returns.

    Raises TimeoutError after these seconds; the thread is then abandoned.
    """
    result, abandoned = _started(function)
    try:
        return result.result(seconds)
    finally:
        abandoned.cancel()


async def in_thread(function: Callable[[], _T]) -> _T:
    """Run a blocking function in a new thread.

    The thread is a daemon: if it hangs, it is abandoned at a timeout or abort and cannot keep the program alive, as a
    thread of the event loop's pool would. The function can check `is_cancelled`.
    """
    result, abandoned = _started(function)
    try:
        return await asyncio.wrap_future(result)
    finally:
        abandoned.cancel()


def _started(function: Callable[[], _T]) -> tuple[Future[_T], Future[None]]:
    """Start a thread; return futures of its result, and of whether its caller still waits."""
    result: Future[_T] = Future()
    abandoned: Future[None] = Future()

    def work() -> None:
        with suppress(InvalidStateError):  # the caller has stopped waiting
            try:
                returned = function()
            except BaseException as error:  # noqa: BLE001 - raised again by the future
                # Futures reject StopIteration, and GeneratorExit would mean that the awaiting coroutine is closed.
                is_special = isinstance(error, StopIteration | GeneratorExit)
                result.set_exception(RuntimeError(repr(error)) if is_special else error)
            else:
                result.set_result(returned)

    context = contextvars.copy_context()
    context.run(_ABANDONED.set, abandoned)
    Thread(target=context.run, args=(work,), daemon=True).start()
    return result, abandoned


GRACE = 1.0
"""Extra time before the kernel kills a search [s], so that normally its caller does and reports the timeout."""
_SCRIPTS = str(Path(__file__).with_name("scripts.py"))


def run(command: Sequence[str], folder: Path, seconds: float, given: bytes | None = None) -> tuple[bytes, int | None]:
    """Run a command; return its standard output and its exit code, None after a timeout.

    A negative exit code is the signal that killed the command, as in `subprocess`.
    folder: working folder.
    seconds: timeout, after which it is killed.
    given: its standard input.
    Raises OSError or ValueError if it cannot be started.
    """
    if sys.executable:
        limits = ("limit", str(seconds + GRACE), str(os.getpid()))
        command = [sys.executable, "-I", "-S", _SCRIPTS, *limits, *command]
    with subprocess.Popen(  # noqa: S603 - no shell
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            when_cancelled(process.kill)
            return process.communicate(given, timeout=seconds)[0], process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0], None
        finally:
            process.kill()


@asynccontextmanager
async def running(command: Sequence[str], limit: int = 65_536, **options: Any) -> AsyncIterator[Process]:  # noqa: ANN401 - of `subprocess`
    """Start a process in a group of its own, which is killed in the end.

    limit: maximum length of a line of its output [bytes].
    Raises OSError or ValueError if it cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        # Ctrl-C must not stop the process: the run does so.
        lambda: SubprocessStreamProtocol(limit, loop), *command, start_new_session=True, **options
    )  # fmt: skip
    process = Process(transport, protocol, loop)
    _running.add(process.pid)
    try:
        yield process
    finally:
        signal_group(process.pid, signal.SIGKILL)
        _running.discard(process.pid)
        transport.close()


@atexit.register
def kill_all() -> None:
    """Kill all processes of `running` immediately, at the end of the program."""
    for pid in _running:
        signal_group(pid, signal.SIGKILL)


async def exits_within(process: Process, seconds: float, poll: float = 0.01) -> bool:
    """Wait for the process only, since a child of it may keep the pipes open; return False after a timeout [s]."""
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(poll)
    return True


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the group of a process that `running` has started, if it still exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
