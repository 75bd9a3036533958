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
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from run_specialist.specialist.problems import shown
from run_specialist.tools.secret_files import PROTECTED_NAMES
from run_specialist.tools.shell.places import CommandFiles

# Size of /tmp, which is in memory [bytes].
_DISK = 256 * 1024**2
# Size of /dev/shm [bytes].
_SHARED_MEMORY = 64 * 1024**2
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
_ETC = Path(__file__).with_name("etc")
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Entries of /etc that programs need; none contains data of the user or of this host's services.
_SETTINGS = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf", "mime.types", "magic",
    "magic.mime", "protocols", "services", "shells", "perl", "terminfo",
)  # fmt: skip
# Files of /proc that describe the host instead of the sandbox's processes.
_OF_HOST = ("cmdline", "config.gz", "kallsyms", "keys", "key-users", "sched_debug", "timer_list", "vmallocinfo")


def options(root: Path, files: CommandFiles, status: int, calls: int, replaced: Mapping[Path, int]) -> list[str]:
    """Return the options of `bwrap` for one command.

    root: the real path at which the files are shown; also the working folder.
    status: descriptor to which it writes its process id and exit code.
    calls: descriptor with the filter of system calls.
    replaced: descriptors with the content of replaced files.
    """
    found = [*_isolated(), *_system(), "--json-status-fd", str(status), "--seccomp", str(calls), "--dir", str(root)]
    # The order counts: later mounts cover earlier ones.
    changed = [*files.writable, *files.pinned]
    for option, paths in (("--ro-bind", files.shown), ("--bind", changed), ("--ro-bind", files.protected)):
        for path in paths:
            found += [option, str(path), str(path)]
    for path in files.emptied:
        found += ["--perms", "0555", "--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    for path in files.closed:
        # A device cannot be opened there.
        found += ["--ro-bind", os.devnull, str(path)]
    for path, descriptor in replaced.items():
        found += ["--ro-bind-data", str(descriptor), str(path)]
    return [*found, *_READ_ONLY, "--setenv", "PATH", search_path(files), "--chdir", str(root)]


def search_path(files: CommandFiles) -> str:
    """Return the variable PATH of a command."""
    return VARIABLES["PATH"] if files.programs is None else f"{files.programs}:{VARIABLES['PATH']}"


def _isolated() -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox")
    yield from ("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--clearenv")
    for name, value in VARIABLES.items():
        yield from ("--setenv", name, value)
    if "--disable-userns" in _bwrap("--help")[1]:
        yield "--disable-userns"


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for name in _SETTINGS:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    for file in sorted(_ETC.iterdir()):
        yield from ("--ro-bind", str(file), f"/etc/{file.name}")
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var")
    for name in _OF_HOST:
        if Path("/proc", name).exists():
            yield from ("--ro-bind", os.devnull, f"/proc/{name}")
    yield from ("--perms", "1777", "--size", str(_DISK), "--tmpfs", "/tmp", "--symlink", "/tmp", "/var/tmp")  # noqa: S108
    yield from ("--perms", "1777", "--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108


@cache
def program() -> str | None:
    """Return the path of `bwrap`; None if it is not installed."""
    return shutil.which("bwrap")


@cache
def _bwrap(*options: str) -> tuple[int | None, str]:
    """Run `bwrap`; return its exit code, None if it cannot be run, and what it printed."""
    try:
        tried = subprocess.run(  # noqa: S603 - no shell
            [program() or "bwrap", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=10.0, check=False, env={},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return tried.returncode, tried.stdout.decode(errors="replace")


def why_no_sandbox() -> str:
    """Return why there is no sandbox on this system, with the remedy; empty if it works.

    Tested once per process, by creating one.
    """
    only = "it runs commands only in a sandbox"
    if sys.platform == "darwin":
        return "" if os.access(SANDBOX_EXEC, os.X_OK) else f"{only}, for which {SANDBOX_EXEC} is missing"
    if sys.platform != "linux":
        return f"{only}, and there is none for this system"
    if filter_for() is None:
        return f"{only}, and there is none for this processor ({platform.machine()})"
    if program() is None:
        return f"{only}, for which bwrap must be installed (package bubblewrap)"
    code, said = _bwrap(*_isolated(), *_system(), *_READ_ONLY, "--", shell(), "-c", ":")
    if code == 0:
        return ""
    reason = shown((said.strip().splitlines() or [f"exit code {code}"])[-1])
    remedy = "" if code is None else "; the system must allow user namespaces and a new /proc"
    return f"{only}, and bwrap cannot make one here: {reason}{remedy}"


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
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
# Offsets in the description of a call.
_NUMBER, _ARCHITECTURE = 0, 4
_X32 = 0x40000000
# The kernel's name of each processor, and the index of its numbers below.
_PROCESSORS = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
_REFUSED = (
    # add_key, request_key, keyctl, mount, umount2, pivot_root, unshare, setns, bpf, perf_event_open, userfaultfd,
    # kexec_load, kexec_file_load, init_module, finit_module, delete_module, reboot, swapon, swapoff, acct, quotactl,
    # syslog, name_to_handle_at, open_by_handle_at, settimeofday, clock_settime; on x86 also iopl and ioperm.
    (
        *(248, 249, 250, 165, 166, 155, 272, 308, 321, 298, 323),
        *(246, 320, 175, 313, 176, 169, 167, 168, 163, 179, 103),
        *(303, 304, 164, 227, 172, 173),
    ),
    (
        *(217, 218, 219, 40, 39, 41, 97, 268, 280, 241, 282),
        *(104, 294, 105, 273, 106, 142, 224, 225, 89, 60, 116),
        *(264, 265, 170, 112),
    ),
)
# io_uring_setup, io_uring_enter, io_uring_register, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick,
# mount_setattr, open_tree_attr: new calls have the same number on all processors.
_REFUSED_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 467)
# clone3, openat2, memfd_secret, memfd_create. The flags of two are in memory, which a filter cannot read; programs then
# use `clone`, `openat` and /dev/shm.
_MISSING = ((435, 437, 447, 319), (435, 437, 447, 279))
# Sockets of files, IPv4, IPv6 and netlink, all of which belong to a namespace.
_FAMILIES = (1, 2, 10, 16)
# When other calls are refused: the numbers of a call, the index of an argument (half an index more for its upper half),
# a test of it, and the error.
_CONDITIONS = (
    # The bits of a mode that let everybody run a file with the rights of its owner or group: chmod, fchmod, fchmodat,
    # fchmodat2, open, creat, openat, mknod, mknodat.
    *(
        (numbers, argument, _ANY_BIT, 0o6000, errno.EPERM)
        for numbers, argument in (
            *(((90, None), 1), ((91, 52), 1), ((268, 53), 2), ((452, 452), 2), ((2, None), 2)),
            *(((85, None), 1), ((257, 56), 3), ((133, None), 1), ((259, 33), 2)),
        )
    ),
    # clone with new namespaces
    ((56, 220), 0, _ANY_BIT, 0x7E020000, errno.EPERM),
    # ioctl with TIOCSTI and TIOCLINUX, which type into a terminal
    *(((16, 29), 1, _EQUAL, request, errno.EPERM) for request in (0x5412, 0x541C)),
    # socket
    ((41, 198), 0, _AT_LEAST, max(_FAMILIES) + 1, errno.EAFNOSUPPORT),
    *(
        ((41, 198), 0, _EQUAL, family, errno.EAFNOSUPPORT)
        for family in range(max(_FAMILIES))
        if family not in _FAMILIES
    ),
    # shmget: PostgreSQL needs a small segment, and a sandbox has up to 4,096; semget: semaphores in a set. The upper
    # half of the size comes first.
    *(((29, 194), argument, _AT_LEAST, least, errno.EINVAL) for argument, least in ((1.5, 1), (1, 65_537))),
    *(((64, 190), argument, _AT_LEAST, least, errno.EINVAL) for argument, least in ((1.5, 1), (1, 33))),
)


def filter_for(machine: str | None = None) -> bytes | None:
    """Return the filter for a processor, by default this machine's; None if it is not supported."""
    machine = machine or platform.machine()
    if machine not in _PROCESSORS:
        return None
    architecture, column = _PROCESSORS[machine]
    # Programs for another processor, such as a 32-bit one, have other numbers. A step has a code, the number of steps
    # to skip if its test holds, and if not, and a value.
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE | errno.EPERM),
    ]  # fmt: skip
    refused = dict.fromkeys((*_REFUSED[column], *_REFUSED_EVERYWHERE), errno.EPERM)
    for number, error in (refused | dict.fromkeys(_MISSING[column], errno.ENOSYS)).items():
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE | error)]
    for both, argument, test, value, error in _CONDITIONS:
        if (known := both[column]) is not None:
            steps += [
                (_LOAD, 0, 0, _NUMBER), (_EQUAL, 0, 3, known), (_LOAD, 0, 0, int(16 + 8 * argument)),
                (test, 0, 1, value), (_RETURN, 0, 0, _REFUSE | error),
            ]  # fmt: skip
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, (_RETURN, 0, 0, _ALLOW)))


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


def profile(root: Path, files: CommandFiles, own: Path) -> str:
    """Return the profile of `sandbox-exec` for one command; paths are real paths.

    own: folder of the command itself, used as its home and its folder of temporary files.
    """
    rules = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork)",
        "(allow process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        # The names of all folders above a file are needed to open it.
        '(allow file-read-metadata (literal "/") (subpath "/private") (subpath "/Users") (subpath "/Volumes"))',
        *(f"(allow mach-lookup (global-name {_quoted(name)}))" for name in _SERVICES),
    ]
    filled: Sequence[tuple[str, Sequence[str | Path]]] = (
        ("(allow file-read* (subpath {}))", (*_READABLE, *files.shown)),
        ("(allow file-read* file-write-data (subpath {}))", _DEVICES),
        ("(allow file-read* file-write* (subpath {}))", (own, *files.writable)),
        ("(deny file-write* (subpath {}))", files.protected),
        # Renaming a folder unlinks it.
        ("(deny file-write-unlink (literal {}))", files.pinned),
        (f'(deny file-write* (require-all (subpath {{}}) (regex #"/{PROTECTED_NAMES}(/|$)")))', (root,)),
        ("(deny file-read-data file-write* (subpath {}))", (*files.emptied, *files.closed, *files.git_settings)),
    )
    for rule, places in filled:
        rules += [rule.replace("{}", _quoted(place)) for place in places]
    return "\n".join([*rules, "(deny network*)"])


def _quoted(text: str | Path) -> str:
    """Return a string literal of the profile language that no character of the path can end."""
    return '"' + re.sub(r'(["\\])', r"\\\1", str(text)) + '"'
