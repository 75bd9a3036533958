"""The sandbox on Linux: the options of `bwrap`, and whether it works here.

Every call gets separate namespaces: no network, no host processes, and a read-only root that contains only the system's
programs and the shown files.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from run_specialist.specialist.problems import shown
from run_specialist.tools.shell.git_folder import GitFolder
from run_specialist.tools.shell.shown_files import ShownFiles
from run_specialist.tools.shell.system_calls import filter_for

PROGRAM = "bwrap"
DISK = 256 * 1024**2
"""Size of /tmp, which is in memory [bytes]."""
SHARED_MEMORY = 64 * 1024**2
"""Size of /dev/shm [bytes]."""
HOME = "/tmp"  # noqa: S108 - inside the sandbox
VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
"""All environment variables of a command."""
USER = 1000
"""User and group of the commands, as they see them."""

# A process of root may change settings of the kernel, of all namespaces, without any capability.
_READ_ONLY = ("--remount-ro", "/", "--remount-ro", "/proc")
_PROBE_TIMEOUT = 10.0
_NO_MORE_NAMESPACES = "--disable-userns"
_ETC = Path(__file__).with_name("etc")
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SETTINGS = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf", "mime.types", "magic",
    "magic.mime", "protocols", "services", "shells", "perl", "terminfo",
)  # fmt: skip
"""Entries of /etc that programs need; none contains data of the user or of this host's services."""


_OF_HOST = ("cmdline", "config.gz", "kallsyms", "keys", "key-users", "sched_debug", "timer_list", "vmallocinfo")
"""Files of /proc that describe the host instead of the sandbox's processes."""


def options(  # noqa: PLR0913, PLR0917 - the parts of a sandbox
    root: Path, files: ShownFiles, git: GitFolder | None, status: int, calls: int, data: Mapping[Path, int]
) -> list[str]:
    """Return the options of `bwrap` for one command.

    root: the real path at which the files are shown; also the working folder.
    status: descriptor to which it writes its process id and exit code.
    calls: descriptor with the filter of system calls.
    data: descriptors with the content of replaced files.
    """
    found = [*_isolated(), *_system(), "--json-status-fd", str(status), "--seccomp", str(calls)]
    # The order counts: later mounts cover earlier ones.
    found += ["--dir", str(root)]
    for start in files.starts:
        found += _at("--ro-bind", root / start)
    if git is not None:
        for place in git.places:
            found += _at("--ro-bind", place)
    for one in (*files.writable, *files.pinned):
        found += _at("--bind", root / one)
    for one in files.protected:
        found += _at("--ro-bind", root / one)
    for folder in (*(root / one for one in files.hidden_folders), *(git.emptied if git else ())):
        found += ["--perms", "0555", "--size", "4096", "--tmpfs", str(folder), "--remount-ro", str(folder)]
    for one in files.hidden_files:
        # A device cannot be opened there.
        found += ["--ro-bind", os.devnull, str(root / one)]
    for secret in git.hidden if git else ():
        found += ["--ro-bind", os.devnull, str(secret)]
    for path, descriptor in data.items():
        found += ["--ro-bind-data", str(descriptor), str(path)]
    return [*found, *_READ_ONLY, "--chdir", str(root)]


def _at(option: str, path: Path) -> list[str]:
    return [option, str(path), str(path)]


def _isolated() -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox")
    yield from ("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--clearenv")
    for name, value in VARIABLES.items():
        yield from ("--setenv", name, value)
    if _knows(_NO_MORE_NAMESPACES):
        yield _NO_MORE_NAMESPACES


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from _at("--ro-bind", path)
    for name in _SETTINGS:
        yield from _at("--ro-bind-try", Path("/etc", name))
    for file in sorted(_ETC.iterdir()):
        yield from ("--ro-bind", str(file), f"/etc/{file.name}")
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var")
    for name in _OF_HOST:
        if Path("/proc", name).exists():
            yield from ("--ro-bind", os.devnull, f"/proc/{name}")
    yield from ("--perms", "1777", "--size", str(DISK), "--tmpfs", "/tmp", "--symlink", "/tmp", "/var/tmp")  # noqa: S108
    yield from ("--perms", "1777", "--size", str(SHARED_MEMORY), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108


@cache
def program() -> str | None:
    """Return the path of `bwrap`; None if it is not installed."""
    return shutil.which(PROGRAM)


@cache
def _knows(option: str) -> bool:
    try:
        found = subprocess.run(  # noqa: S603 - no shell
            [program() or PROGRAM, "--help"], capture_output=True, timeout=_PROBE_TIMEOUT, check=False, env={}
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option.encode() in found.stdout + found.stderr


@cache
def why_unusable() -> str:
    """Return why there is no sandbox on this system, with the remedy; empty if it works.

    Tested once per process, by creating one.
    """
    path = program()
    if filter_for() is None:
        return f"it runs commands only in a sandbox, and there is none for this processor ({platform.machine()})"
    if path is None:
        return "it runs commands only in a sandbox, for which bwrap must be installed (package bubblewrap)"
    command: Sequence[str] = [path, *_isolated(), *_system(), *_READ_ONLY, "--", shell(), "-c", ":"]
    try:
        tried = subprocess.run(  # noqa: S603 - no shell
            command, capture_output=True, timeout=_PROBE_TIMEOUT, check=False, env={}, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it runs commands only in a sandbox, and bwrap cannot make one here: {shown(str(error))}"
    if tried.returncode == 0:
        return ""
    said = tried.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {tried.returncode}"]
    return (
        f"it runs commands only in a sandbox, and bwrap cannot make one here: {shown(said[-1])}; the system must allow "
        "user namespaces and a new /proc"
    )


@cache
def shell() -> str:
    """Return the path of the shell that runs the commands."""
    return next((path for path in ("/bin/bash", "/usr/bin/bash") if os.access(path, os.X_OK)), "/bin/sh")
