"""Script that limits its process and then executes a search program: `limited.py SECONDS PARENT COMMAND...`.

It imports the standard library only. `re` cannot be interrupted from inside, and a killed caller cannot stop the
processes it started. The kernel enforces these limits instead, and keeps them across `exec`, for any program.
"""

import math
import os
import resource
import signal
import sys
from contextlib import suppress

MEMORY = 4 * 1024**3
"""Maximum memory a search may allocate, without mapped files [bytes]; ripgrep holds entire lines in memory."""
CANNOT_START = 127
"""Exit code if the command cannot be run, as in a shell; no search program uses it."""
_PR_SET_PDEATHSIG = 1


def limit(seconds: float, parent: int) -> None:
    """Make the kernel kill this process after a timeout, or when its parent ends.

    seconds: limit of wall time, and, rounded up, of CPU time.
    parent: process ID of the caller. Its end is detected on Linux only; elsewhere only the time limits apply.
    """
    # Ignored and blocked signals are inherited, e.g. from `nohup` or by background jobs of a shell.
    for number in (signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _lower_limit(resource.RLIMIT_CPU, math.ceil(seconds))
    _lower_limit(resource.RLIMIT_DATA, MEMORY)
    # Write no core dumps to the user's working folder.
    _lower_limit(resource.RLIMIT_CORE, 0)
    _kill_with_parent(parent)


def _lower_limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # If the system refuses one limit, the others still apply.
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))


def _kill_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        # Without ctypes or prctl, the time limits still apply.
        with suppress(ImportError, OSError, AttributeError):
            import ctypes  # noqa: PLC0415 - only Linux needs it

            # To the kernel, the parent is the thread that started this process; it waits until the search ends.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        # The parent ended before that call.
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Limit this process and replace it with the command."""
    seconds, parent, *command = sys.argv[1:]
    try:
        limit(float(seconds), int(parent))
        os.execv(command[0], command)  # noqa: S606 - no shell
    except Exception:  # noqa: BLE001 - exit code 1 would mean that nothing was found
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
