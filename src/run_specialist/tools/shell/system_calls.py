"""A filter of system calls for sandboxed commands, as a program for the kernel.

Namespaces do not separate everything: sockets of virtual machines (vsock) lead to the host, keyrings are inherited, and
some calls are rarely needed but have often allowed an escape from a sandbox. Memory that belongs to no process cannot
be counted, so it is refused as well, or limited to a small size. Refused calls fail with an error.

Sources: linux/seccomp.h, linux/filter.h, the tables of system calls of the kernel.
"""

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_HIGH = 4
"""Offset of the upper half of an argument from the lower one."""
"""Offsets in the description of a call; of arguments the lower half, which comes first on these processors."""
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
