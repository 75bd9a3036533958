"""Limit this process, then become a search program: `limited.py SECONDS PARENT COMMAND...`.

Run as a script, with the standard library alone. `re` cannot be interrupted from inside, and a caller that is killed
cannot end what it started. So the kernel has to: it keeps all of these limits across `exec`, for any program.
"""

import math
import os
import resource
import signal
import sys
from contextlib import suppress

MEMORY = 4 * 1024**3
"""How much a search may allocate [bytes]; mapped files do not count. ripgrep holds each line whole."""
CANNOT_START = 127
"""Exit code when the command cannot be run, as in a shell; no search program uses it."""
_PR_SET_PDEATHSIG = 1


def limit(seconds: float, parent: int) -> None:
    """Have the kernel kill this process after some time, or when its parent ends.

    seconds: of wall time; of processor time as much, rounded up.
    parent: the process id of the one that waits for the result. Only Linux reports its end; elsewhere the time counts.
    """
    # Ignored and blocked signals are inherited, e.g. by the jobs of a shell or from `nohup`.
    for number in (signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _lower(resource.RLIMIT_CPU, math.ceil(seconds))
    _lower(resource.RLIMIT_DATA, MEMORY)
    # The working folder is the user's: no core dumps there.
    _lower(resource.RLIMIT_CORE, 0)
    _die_with(parent)


def _lower(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # A system that refuses one limit still has the others.
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (most, most))


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        # A Python without ctypes, or a sandbox without prctl, still has the time limit.
        with suppress(ImportError, OSError, AttributeError):
            import ctypes  # noqa: PLC0415 - only Linux needs it

            # "Parent" means the thread that started this process; it waits here until the search ends.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        # It ended before that call.
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Limit this process and run the command in its place."""
    seconds, parent, *command = sys.argv[1:]
    try:
        limit(float(seconds), int(parent))
        os.execv(command[0], command)  # noqa: S606 - no shell
    except Exception:  # noqa: BLE001 - Python would exit with 1, which means to ripgrep that nothing was found
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
