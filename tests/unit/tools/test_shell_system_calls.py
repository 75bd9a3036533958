"""The filter of system calls, run by a small interpreter of its language, for each processor."""

import errno
import struct

import pytest

from run_specialist.tools.shell.system_sandbox import filter_for

ALLOWED = 0x7FFF0000
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
SOCKET, CLONE, IOCTL, MOUNT, OPEN, CHMOD, SHMGET, SEMGET, MEMFD = range(9)
NUMBERS = {
    "x86_64": (41, 56, 16, 165, 257, 91, 29, 64, 319),
    "aarch64": (198, 220, 29, 40, 56, 52, 194, 190, 279),
    "riscv64": (198, 220, 29, 40, 56, 52, 194, 190, 279),
}


def decided(machine, number, arguments=(), architecture=None):
    """Return what the filter of a processor decides about a call: 0, or the number of its error."""
    call = struct.pack("=iIQ6Q", number, architecture or MACHINES[machine], 0, *[*arguments, *[0] * 6][:6])
    program = list(struct.iter_unpack("=HBBI", filter_for(machine)))
    loaded, place = 0, 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        match code:
            case 0x20:
                loaded = struct.unpack_from("=I", call, value)[0]
            case 0x06:
                assert value == ALLOWED or value >> 16 == 5
                return 0 if value == ALLOWED else value & 0xFFFF
            case _:
                holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
                place += if_true if holds else if_false


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        *((SOCKET, (family,), 0) for family in (1, 2, 10, 16)),
        *((SOCKET, (family,), errno.EAFNOSUPPORT) for family in (40, 38, 0)),
        (CLONE, (0x11,), 0),
        (CLONE, (0x003D0F00,), 0),
        *((CLONE, (0x11 | flag,), errno.EPERM) for flag in (0x20000, 0x10000000, 0x40000000)),
        (IOCTL, (0, 0x5401), 0),
        *((IOCTL, (0, request), errno.EPERM) for request in (0x5412, 0x1_0000_5412, 0x541C)),
        (MOUNT, (), errno.EPERM),
        (OPEN, (0, 0, 0o100, 0o755), 0),
        (OPEN, (0, 0, 0o100, 0o4755), errno.EPERM),
        (CHMOD, (0, 0o777), 0),
        (SHMGET, (0, 56), 0),
        (SHMGET, (0, 65_536), 0),
        (SHMGET, (0, 65_537), errno.EINVAL),
        (SHMGET, (0, 0x1_0000_0000), errno.EINVAL),
        (SEMGET, (0, 32), 0),
        (SEMGET, (0, 33), errno.EINVAL),
        (MEMFD, (), errno.ENOSYS),
        (CHMOD, (0, 0o2755), errno.EPERM),
    ],
)
def test_each_processor_has_the_same_rules(machine, name, arguments, error):
    """Sockets by family, new processes by flags, terminals by request."""
    assert decided(machine, NUMBERS[machine][name], arguments) == error


@pytest.mark.parametrize("machine", MACHINES)
def test_other_tables_of_calls_are_refused(machine):
    """A program for another processor, and one with the numbers of x32; `clone3` seems not to exist."""
    assert decided(machine, 0) == 0
    assert decided(machine, 0, architecture=0x40000003) == errno.EPERM
    assert decided(machine, 0x40000000) == errno.EPERM
    assert [decided(machine, number) for number in (435, 437)] == [errno.ENOSYS] * 2
    assert decided(machine, 425) == errno.EPERM


def test_there_is_no_filter_for_unknown_processors():
    """So the tool is not offered there."""
    assert filter_for("vax") is None
