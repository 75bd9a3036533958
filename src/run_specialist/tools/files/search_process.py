"""Run a search program that never outlives the call that waits for it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from run_specialist.tools.threads import when_cancelled

GRACE = 1.0
"""The kernel kills a search this much later than its caller would [s], so that the caller reports the timeout."""
_LIMITED = str(Path(__file__).with_name("limited.py"))
_CAN_LIMIT = bool(sys.executable) and find_spec("resource") is not None
"""False on Windows: there the caller alone ends a search."""


def run(command: Sequence[str], folder: Path, seconds: float) -> tuple[bytes, int | None]:
    """Return what a command wrote to standard output, and its exit code: None when the time was up.

    A negative exit code names the signal that killed the command, as in `subprocess`.
    folder: where it runs.
    seconds: of wall time, after which it is killed.
    Raises OSError or ValueError when it cannot be started.
    """
    with subprocess.Popen(  # noqa: S603 - no shell
        _limited(command, seconds + GRACE),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            when_cancelled(process.kill)
            return process.communicate(timeout=seconds)[0], process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0], None
        finally:
            process.kill()


def _limited(command: Sequence[str], seconds: float) -> list[str]:
    """Return a command that limits itself, and then becomes the given one."""
    if not _CAN_LIMIT:
        return list(command)
    return [sys.executable, "-I", "-S", _LIMITED, str(seconds), str(os.getpid()), *command]
