"""The sandboxes of the system: `bwrap` with a filter of system calls, and `sandbox-exec`.

Every call gets separate namespaces: no network, no host processes, and a read-only root that contains only the system's
programs and the shown files.
"""

import errno
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from run_specialist.specialist.problems import shown
from run_specialist.tools.secret_files import PROTECTED_NAMES
from run_specialist.tools.shell.places import GitFolder, ShownFiles

BWRAP = "bwrap"
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
    return shutil.which(BWRAP)


@cache
def _knows(option: str) -> bool:
    try:
        found = subprocess.run(  # noqa: S603 - no shell
            [program() or BWRAP, "--help"], capture_output=True, timeout=_PROBE_TIMEOUT, check=False, env={}
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option.encode() in found.stdout + found.stderr


@cache
def why_no_bwrap() -> str:
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


# A filter of system calls for sandboxed commands, as a program for the kernel.
#
# Namespaces do not separate everything: sockets of virtual machines (vsock) lead to the host, keyrings are inherited,
# and some calls are rarely needed but have often allowed an escape from a sandbox. Memory that belongs to no process
# cannot be counted, so it is refused as well, or limited to a small size. Refused calls fail with an error.
#
# Sources: linux/seccomp.h, linux/filter.h, the tables of system calls of the kernel.

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in the description of a call; of arguments the lower half, which comes first on these processors."""
_HIGH = 4
"""Offset of the upper half of an argument from the lower one."""
_NEW_NAMESPACES = 0x7E020000
"""Flags of `clone`."""
_FAMILIES = (1, 2, 10, 16)
"""Sockets of files, IPv4, IPv6 and netlink, all of which belong to a namespace."""
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into a terminal."""
_FOREIGN_RIGHTS = 0o6000
"""Bits of a mode that let everybody run a file with the rights of its owner or group."""
_OPENAT2 = 437
_X32 = 0x40000000
_SAME = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 467)
"""io_uring_setup, io_uring_enter, io_uring_register, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick,
mount_setattr, open_tree_attr: new calls have the same number on all processors.
"""
_CLONE3 = 435
_MEMFD_SECRET = 447
_MOST_SHARED = 65_536
"""Maximum size of a segment of shared memory, as PostgreSQL needs a small one; a sandbox has up to 4,096 [bytes]."""
_MOST_SEMAPHORES = 32
"""Maximum number of semaphores in a set."""


@dataclass(frozen=True, slots=True)
class _Processor:
    architecture: int
    clone: int
    socket: int
    ioctl: int
    memfd_create: int
    sizes: tuple[tuple[int, int], ...]
    """Calls that make memory of the kernel, each with the largest allowed second argument."""
    modes: tuple[tuple[int, int], ...]
    """Calls that set a file's mode, each with the index of the mode argument."""
    refused: tuple[int, ...]


# add_key, request_key, keyctl, mount, umount2, pivot_root, unshare, setns, bpf, perf_event_open, userfaultfd,
# kexec_load, kexec_file_load, init_module, finit_module, delete_module, reboot, swapon, swapoff, acct, quotactl,
# syslog, name_to_handle_at, open_by_handle_at, settimeofday, clock_settime; on x86 also iopl and ioperm.
_X86_64 = (
    *(248, 249, 250, 165, 166, 155, 272, 308, 321, 298, 323),
    *(246, 320, 175, 313, 176, 169, 167, 168, 163, 179, 103),
    *(303, 304, 164, 227, 172, 173),
)
_GENERIC = (
    *(217, 218, 219, 40, 39, 41, 97, 268, 280, 241, 282),
    *(104, 294, 105, 273, 106, 142, 224, 225, 89, 60, 116),
    *(264, 265, 170, 112),
)
# chmod, fchmod, fchmodat, fchmodat2, open, creat, openat, mknod, mknodat
_MODES_X86_64 = ((90, 1), (91, 1), (268, 2), (452, 2), (2, 2), (85, 1), (257, 3), (133, 1), (259, 2))
_MODES_GENERIC = ((52, 1), (53, 2), (452, 2), (56, 3), (33, 2))
# shmget, semget
_SIZES_X86_64 = ((29, _MOST_SHARED), (64, _MOST_SEMAPHORES))
_SIZES_GENERIC = ((194, _MOST_SHARED), (190, _MOST_SEMAPHORES))
_PROCESSORS: Mapping[str, _Processor] = {
    "x86_64": _Processor(0xC000003E, 56, 41, 16, 319, _SIZES_X86_64, _MODES_X86_64, _X86_64),
    "aarch64": _Processor(0xC00000B7, 220, 198, 29, 279, _SIZES_GENERIC, _MODES_GENERIC, _GENERIC),
    "riscv64": _Processor(0xC00000F3, 220, 198, 29, 279, _SIZES_GENERIC, _MODES_GENERIC, _GENERIC),
}


def filter_for(machine: str | None = None) -> bytes | None:
    """Return the filter for a processor, by default this machine's; None if it is not supported."""
    processor = _PROCESSORS.get(machine or platform.machine())
    return None if processor is None else b"".join(_program(processor))


def _program(processor: _Processor) -> Iterator[bytes]:
    # Programs for another processor, such as a 32-bit one, have other numbers.
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, processor.architecture, 1, 0)
    yield _refuse(errno.EPERM)
    yield _step(_LOAD, _NUMBER)
    yield _step(_AT_LEAST, _X32, 0, 1)
    yield _refuse(errno.EPERM)
    for number in (*processor.refused, *_SAME):
        yield _step(_EQUAL, number, 0, 1)
        yield _refuse(errno.EPERM)
    # The flags of two are in memory, which a filter cannot read; programs then use `clone`, `openat` and /dev/shm.
    for number in (_CLONE3, _OPENAT2, _MEMFD_SECRET, processor.memfd_create):
        yield _step(_EQUAL, number, 0, 1)
        yield _refuse(errno.ENOSYS)
    for number, most in processor.sizes:
        yield _step(_EQUAL, number, 0, 6)
        yield _step(_LOAD, _SECOND + _HIGH)
        yield _step(_EQUAL, 0, 0, 2)
        yield _step(_LOAD, _SECOND)
        yield _step(_AT_LEAST, most + 1, 0, 1)
        yield _refuse(errno.EINVAL)
        yield _step(_RETURN, _ALLOW)
    for number, place in processor.modes:
        yield _step(_EQUAL, number, 0, 4)
        yield _step(_LOAD, _FIRST + 8 * place)
        yield _step(_ANY_BIT, _FOREIGN_RIGHTS, 0, 1)
        yield _refuse(errno.EPERM)
        yield _step(_RETURN, _ALLOW)
    yield _step(_EQUAL, processor.clone, 0, 4)
    yield _step(_LOAD, _FIRST)
    yield _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1)
    yield _refuse(errno.EPERM)
    yield _step(_RETURN, _ALLOW)
    yield _step(_EQUAL, processor.socket, 0, len(_FAMILIES) + 3)
    yield _step(_LOAD, _FIRST)
    for index, family in enumerate(_FAMILIES):
        yield _step(_EQUAL, family, len(_FAMILIES) - index, 0)
    yield _refuse(errno.EAFNOSUPPORT)
    yield _step(_RETURN, _ALLOW)
    yield _step(_EQUAL, processor.ioctl, 0, 4)
    yield _step(_LOAD, _SECOND)
    yield _step(_EQUAL, _TERMINAL_INPUT[0], 1, 0)
    yield _step(_EQUAL, _TERMINAL_INPUT[1], 0, 1)
    yield _refuse(errno.EPERM)
    yield _step(_RETURN, _ALLOW)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERROR | number)


# The sandbox on macOS: the profile of `sandbox-exec`, and whether it is available.
#
# Later rules of a profile override earlier ones. There are no namespaces: a command sees the process ids of others, but
# may signal only processes in its sandbox. A process that leaves its process group is ended only by its limits.

SANDBOX_EXEC = "/usr/bin/sandbox-exec"

_READABLE = (
    "/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer/CommandLineTools", "/opt/homebrew",
    "/private/etc/localtime", "/private/etc/shells", "/private/var/db/timezone", "/private/var/db/dyld",
    "/private/var/select",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/fd")
_SERVICES = ("com.apple.system.opendirectoryd.libinfo", "com.apple.system.notification_center")


def why_no_sandbox_exec() -> str:
    """Return why there is no sandbox on this system; empty if there is one."""
    if os.access(SANDBOX_EXEC, os.X_OK):
        return ""
    return f"it runs commands only in a sandbox, for which {SANDBOX_EXEC} is missing"


def command(root: Path, files: ShownFiles, git: GitFolder | None, own: Path, words: Sequence[str]) -> list[str]:
    """Return the command that runs another one in the sandbox.

    own: folder of the command itself, used as its home and its folder of temporary files.
    """
    return [SANDBOX_EXEC, "-p", profile(root, files, git, own), *words]


def profile(root: Path, files: ShownFiles, git: GitFolder | None, own: Path) -> str:
    """Return the profile for one command; paths are real paths."""
    return "\n".join(_rules(root, files, git, own))


def _rules(root: Path, files: ShownFiles, git: GitFolder | None, own: Path) -> Iterator[str]:
    yield "(version 1)"
    yield "(deny default)"
    yield "(allow process-fork)"
    yield "(allow process-exec)"
    yield "(allow signal (target same-sandbox))"
    yield "(allow process-info* (target same-sandbox))"
    yield "(allow sysctl-read)"
    # The names of all folders above a file are needed to open it.
    yield '(allow file-read-metadata (literal "/") (subpath "/private") (subpath "/Users") (subpath "/Volumes"))'
    yield from (f"(allow mach-lookup (global-name {_quoted(name)}))" for name in _SERVICES)
    yield from (f"(allow file-read* (subpath {_quoted(path)}))" for path in _READABLE)
    yield from (f"(allow file-read* file-write-data (subpath {_quoted(path)}))" for path in _DEVICES)
    yield from (f"(allow file-read* (subpath {_quoted(root / start)}))" for start in files.starts)
    if git:
        yield from (f"(allow file-read* (subpath {_quoted(path)}))" for path in git.places)
    yield f"(allow file-read* file-write* (subpath {_quoted(own)}))"
    yield from (f"(allow file-read* file-write* (subpath {_quoted(root / one)}))" for one in files.writable)
    yield from (f"(deny file-write* (subpath {_quoted(root / one)}))" for one in files.protected)
    # Renaming a folder unlinks it.
    yield from (f"(deny file-write-unlink (literal {_quoted(root / one)}))" for one in files.pinned)
    yield f'(deny file-write* (require-all (subpath {_quoted(root)}) (regex #"/{PROTECTED_NAMES}(/|$)")))'
    for one in (*files.hidden_folders, *files.hidden_files):
        yield f"(deny file-read-data file-write* (subpath {_quoted(root / one)}))"
    for path in (*git.configs, *git.hidden, *git.emptied) if git else ():
        yield f"(deny file-read-data file-write* (subpath {_quoted(path)}))"
    yield "(deny network*)"


def _quoted(text: str | Path) -> str:
    """Return a string literal of the profile language that no character of the path can end."""
    return '"' + re.sub(r'(["\\])', r"\\\1", str(text)) + '"'
