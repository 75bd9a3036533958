"""Start a process, wait for it, and tell what it used."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""All else of the environment is left behind: keys, proxies, stores, and switches that forbid .pyc files."""


class LapFailed(Exception):
    """A lap did not come to what it was to measure; the text says why."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a process that ended well used, with the children that it waited for."""

    cpu: float
    """[s]"""
    wall: float
    """[s]"""
    out: str
    err: str


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment whose home and data folders are of its own."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE", "STATE")}
    return {**kept, "HOME": str(home), **folders, **more}


def run(
    command: Sequence[str | Path],
    folder: Path,
    env: Mapping[str, str],
    seconds: float,
    begun: Callable[[int], None] | None = None,
) -> Done:
    """Run a command to its end.

    seconds: after so many it is killed.
    begun: is told the process's id.
    Raises LapFailed for one that does not end well.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        before = time.perf_counter()
        try:
            process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            raise LapFailed(f"it cannot be started: {error}") from error
        if begun is not None:
            begun(process.pid)
        late = Timer(seconds, process.kill)
        late.start()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - before
        in_time = late.is_alive()
        late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        told = [(file.seek(0), file.read().decode(errors="replace"))[1] for file in (out, err)]
    if process.returncode:
        last = next((line for line in reversed((told[1] or told[0]).splitlines()) if line.strip()), "it said nothing")
        why = f"exit code {process.returncode}" if in_time else f"killed after {seconds:.0f} s"
        raise LapFailed(f"{why}: {last[:200]}")
    return Done(used.ru_utime + used.ru_stime, wall, *told)
