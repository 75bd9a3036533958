"""Run a process and measure its resource usage."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Environment variables to pass on; all others are dropped, such as keys, proxies, stores and Python's switches."""


class LapFailed(Exception):
    """A lap could not be measured; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Done:
    """Output and resource usage of a successful process, including the child processes it waited for."""

    cpu: float
    """CPU time [s]."""
    wall: float
    """Wall time [s]."""
    out: str
    err: str


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return environment variables with home and data folders below `home`."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE", "STATE")}
    return {**passed_on, "HOME": str(home), **folders, **more}


def run(
    command: Sequence[str | Path],
    folder: Path,
    env: Mapping[str, str],
    seconds: float,
    begun: Callable[[int], None] | None = None,
) -> Done:
    """Run a command and wait until it exits.

    seconds: Timeout, after which it is killed.
    begun: Called with the process id after the start.
    Raises LapFailed if it cannot be started, fails or times out.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        before = time.perf_counter()
        try:
            process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            raise LapFailed(f"cannot start: {error}") from error
        if begun is not None:
            begun(process.pid)
        late = Timer(seconds, process.kill)
        late.start()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - before
        in_time = late.is_alive()
        late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output = [(file.seek(0), file.read().decode(errors="replace"))[1] for file in (out, err)]
    if process.returncode:
        last = next((line for line in reversed((output[1] or output[0]).splitlines()) if line.strip()), "no output")
        why = f"exit code {process.returncode}" if in_time else f"killed after {seconds:.0f} s"
        raise LapFailed(f"{why}: {last[:200]}")
    return Done(used.ru_utime + used.ru_stime, wall, *output)
