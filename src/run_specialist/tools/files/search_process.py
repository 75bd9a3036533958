"""Processes of tools, such as searches, that never outlive the call that waits for them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from run_specialist.tools.threads import when_cancelled

GRACE = 1.0
"""Extra time before the kernel kills a search [s], so that normally its caller does and reports the timeout."""
_LIMITED = str(Path(__file__).with_name("limited.py"))
_CAN_LIMIT = bool(sys.executable) and find_spec("resource") is not None
"""False on Windows, where only the caller can stop a search."""


def run(command: Sequence[str], folder: Path, seconds: float, given: bytes | None = None) -> tuple[bytes, int | None]:
    """Run a command; return its standard output and its exit code, None after a timeout.

    A negative exit code is the signal that killed the command, as in `subprocess`.
    folder: working folder.
    seconds: timeout, after which it is killed.
    given: its standard input.
    Raises OSError or ValueError if it cannot be started.
    """
    with subprocess.Popen(  # noqa: S603 - no shell
        _limited(command, seconds + GRACE),
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


def _limited(command: Sequence[str], seconds: float) -> list[str]:
    """Wrap a command so that the kernel limits it."""
    if not _CAN_LIMIT:
        return list(command)
    return [sys.executable, "-I", "-S", _LIMITED, str(seconds), str(os.getpid()), *command]
