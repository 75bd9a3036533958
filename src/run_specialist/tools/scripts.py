"""Scripts that run in their own processes: limit a search, and scan files for a pattern.

    scripts.py limit SECONDS PARENT COMMAND...
    scripts.py scan PATTERN FLAGS LINES_PER_FILE PATH...

They are run by path and isolated, and start often, so only the standard library is imported. `re` cannot be interrupted
from inside, has no timeout, and blocks the interpreter; a killed caller cannot stop the processes that it started.
Therefore a search is a process of its own, and the kernel enforces its limits and keeps them across `exec`.
"""

import codecs
import io
import math
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import BinaryIO

DETECTION_SIZE = 8192
"""Size of the prefix used to detect whether a file is text [bytes]."""
LONGEST_LINE = 65_536
"""Maximum length of a line; the rest is cut [characters]."""
SEARCH_FAILED = 3
"""Exit code of a search that failed, e.g. out of memory; 0 to 2 have the same meaning as for ripgrep."""


def encoding_of(head: bytes | bytearray) -> str | None:
    """Detect the encoding of a file from its first bytes; return None if it is not text."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return None if b"\0" in head else "utf-8"


def lines_of(file: BinaryIO, encoding: str, until: float = math.inf) -> Iterator[tuple[str, int]]:
    r"""Yield each line, without its line ending and cut to LONGEST_LINE, and its original length [characters].

    Only `\n` and `\r\n` end a line, as in ripgrep; other Unicode line breaks do not.
    until: deadline on the clock of `time.monotonic` [s].
    Raises TimeoutError after the deadline: a file may be endless, or grow faster than it is read.
    """
    with io.TextIOWrapper(file, encoding, errors="replace", newline="\n") as text:
        while line := text.readline(LONGEST_LINE):
            length, piece = len(line), line
            while not piece.endswith("\n") and (piece := text.readline(LONGEST_LINE)):
                length += len(piece)
                _check_deadline(until)
            _check_deadline(until)
            content = line.rstrip("\r\n")
            yield content, max(len(content), length - 1 if length > LONGEST_LINE else 0)


def lines_in(text: str) -> list[str]:
    """Split a text into lines in the same way as `lines_of`."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[:LONGEST_LINE].rstrip("\r") for line in lines]


def _check_deadline(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError("that would take too long; it is too large to be read so far")


def scan_lines(pattern: str, flags: str, most: str, *paths: str) -> None:
    r"""Print `path\0line:column:` for each matching line, at most `most` for each file."""
    compiled = re.compile(pattern, int(flags))
    for path in paths:
        with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - importing pathlib would double the start-up time
            encoding = encoding_of(file.read(DETECTION_SIZE) or b"") or "latin-1"
            file.seek(0)
            found = (
                f"{number}:{len(line[: match.start()].encode('utf-8', 'replace')) + 1}:\n"
                for number, (line, _) in enumerate(lines_of(file, encoding), 1)
                if (match := compiled.search(line))
            )
            for place in islice(found, int(most)):
                sys.stdout.buffer.write(os.fsencode(path) + b"\0" + place.encode())
            sys.stdout.buffer.flush()


MEMORY = 4 * 1024**3
"""Maximum memory a search may allocate, without mapped files [bytes]; ripgrep holds entire lines in memory."""
# Exit code if the command cannot be run, as in a shell; no search program uses it.
_CANNOT_START = 127
_PR_SET_PDEATHSIG = 1


def run_limited(seconds: str, parent: str, *command: str) -> None:
    """Replace this process with a command that the kernel kills after a timeout, or when its parent ends.

    seconds: limit of wall time, and, rounded up, of CPU time.
    parent: process ID of the caller. Its end is detected on Linux only; elsewhere only the time limits apply.
    """
    try:
        import resource  # noqa: PLC0415 - not on Windows

        # Ignored and blocked signals are inherited, e.g. from `nohup` or by background jobs of a shell.
        for number in (signal.SIGALRM, signal.SIGXCPU):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.setitimer(signal.ITIMER_REAL, float(seconds))
        # No core dumps are written to the user's working folder.
        limits = {resource.RLIMIT_CPU: math.ceil(float(seconds)), resource.RLIMIT_DATA: MEMORY, resource.RLIMIT_CORE: 0}
        for kind, value in limits.items():
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901 - lowered
            # If the system refuses one limit, the others still apply.
            with suppress(OSError, ValueError):
                resource.setrlimit(kind, (value, value))
        if sys.platform == "linux":
            # Without ctypes or prctl, the time limits still apply.
            with suppress(ImportError, OSError, AttributeError):
                import ctypes  # noqa: PLC0415 - only Linux needs it

                # To the kernel, the parent is the thread that started this process; it waits until the search ends.
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
        if os.getppid() != int(parent):
            # The parent ended before that call.
            os.kill(os.getpid(), signal.SIGKILL)
        os.execv(command[0], command)  # noqa: S606 - no shell
    except Exception:  # noqa: BLE001 - exit code 1 would mean that nothing was found
        sys.exit(_CANNOT_START)


def main() -> None:
    """Run the script that the first argument names."""
    script, *arguments = sys.argv[1:]
    if script == "limit":
        run_limited(*arguments)
    elif script == "scan":
        try:
            scan_lines(*arguments)
        except Exception:  # noqa: BLE001 - exit code 1 would mean that nothing was found
            sys.exit(SEARCH_FAILED)


if __name__ == "__main__":
    main()
