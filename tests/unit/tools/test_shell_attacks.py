"""Attacks from inside the sandbox of `bash`: on files, network, processes, the kernel and the terminal of the host."""

import os
import socket
from contextlib import closing

import pytest

from run_specialist.tools.shell import process
from tests.unit.tools.sandboxed_commands import Commands, needs_bubblewrap, processes_with, unique_mark

pytestmark = needs_bubblewrap
CANARY = "canary-in-a-secret-place"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a command in the root of a small project; the home folder is beside it."""
    commands = Commands(tmp_path / "project")
    commands.write("notes/plain.md")
    home = tmp_path / "home"
    for file in (".ssh/id_ed25519", ".local/share/run-specialist/runs.db", "notes.txt"):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(CANARY)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    return commands


@pytest.mark.parametrize(
    "command",
    [
        "cat {home}/.ssh/id_ed25519",
        "cat {home}/.local/share/run-specialist/runs.db",
        "cat {home}/notes.txt; ls -la {home}; ls -la {home}/..",
        "cat ../home/notes.txt",
        "cat /proc/self/cwd/../home/notes.txt",
        "cat /proc/1/root{home}/notes.txt; cat /proc/1/cwd/../home/notes.txt",
        "cat /proc/*/root{home}/notes.txt",
        "ln -s {home}/notes.txt /tmp/link; cat /tmp/link",
        "ln {home}/notes.txt /tmp/link; cat /tmp/link",
        "env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline",
        "cat /proc/{parent}/environ; ls -la /proc/{parent}",
        "ls /oldroot /newroot /proc/self/map_files; cat /oldroot{home}/notes.txt",
        "cat .env sub/id_rsa deploy/key.pem; cp .env /tmp/x; cat /tmp/x; dd if=.env",
        "mv .env /tmp/env; cat /tmp/env; ln .env /tmp/env2; cat /tmp/env2; python3 -c 'print(open(\".env\").read())'",
        "cat ignored.txt build/made.txt",
        "tar cf - . | strings; grep -ra canary . ; find . -type f -exec cat {{}} +",
    ],
)
async def test_nothing_outside_and_nothing_hidden_is_read(run, command, tmp_path):
    """Neither files of the user nor variables of this process, nor what the file tools hide."""
    for file in (".env", "sub/id_rsa", "deploy/key.pem", "ignored.txt", "build/made.txt"):
        run.write(file, CANARY)
    run.write(".gitignore", "ignored.txt\nbuild/\n")
    output = await run(command.format(home=tmp_path / "home", parent=os.getpid()))
    assert CANARY not in output.text


@pytest.mark.parametrize(
    "path", ["/x", "/usr/x", "/etc/x", "/dev/x", "/proc/sys/kernel/core_pattern", "/run/x", "/var/x", "{root}/x"]
)
async def test_nothing_can_be_written(run, path):
    """Neither in the root nor in system folders, nor a setting of the kernel, which root could change otherwise."""
    path = path.format(root=run.root)
    output = await run(f"echo x >> {path} && echo written; test -w {path} && echo writable; mkdir {path}d && echo made")
    assert not {"written", "writable", "made"} & set(output.text.splitlines())
    assert [one.name for one in run.root.iterdir()] == ["notes"]


async def test_there_is_no_network(run, monkeypatch):
    """Neither the loopback of the host, nor its abstract sockets, nor the host of a virtual machine."""
    name = f"\0{unique_mark()}"
    abstract = socket.socket(socket.AF_UNIX)
    with closing(socket.create_server(("127.0.0.1", 0))) as server, closing(abstract):
        abstract.bind(name)
        abstract.listen()
        file = run.root / "notes" / "socket"
        with closing(socket.socket(socket.AF_UNIX)) as in_root:
            # Its whole path is too long for a socket.
            monkeypatch.chdir(file.parent)
            in_root.bind("socket")
            in_root.listen()
            attempts = [
                (socket.AF_INET, ("127.0.0.1", server.getsockname()[1])),
                (socket.AF_INET, ("192.0.2.1", 80)),
                (socket.AF_UNIX, name),
                (socket.AF_UNIX, str(file)),
                (40, (2, 1024)),
            ]
            script = "\n".join(
                f"try:\n s = socket.socket({int(family)}, 1)\n s.settimeout(2)\n s.connect({address!r})\n"
                f" print('connected')\nexcept OSError: print('refused')"
                for family, address in attempts
            )
            run.write("attack.py", f"import socket\n{script}\n")
            output = await run("python3 attack.py")
    assert output.text.split() == ["refused"] * len(attempts)


@pytest.mark.parametrize(
    "command",
    [
        "(setsid nohup sleep 300 {mark} >/dev/null 2>&1 &); echo ok",
        "nohup sh -c 'sleep 300; : {mark}' & disown; echo ok",
        'python3 -c "import os,time\nif not os.fork():\n os.setsid()\n if not os.fork():time.sleep(9)#{mark}"\necho ok',
        "trap '' TERM HUP INT; (trap '' TERM HUP INT; sleep 300; : {mark}) & echo ok",
    ],
)
async def test_no_process_is_left_behind(run, command):
    """Background processes, daemons and processes that ignore signals end with the call."""
    mark = unique_mark()
    output = await run(command.replace("{mark}", mark))
    assert (output.text.strip(), output.note) == ("ok", "[exit code 0]")
    assert processes_with(mark) == []


async def test_the_processes_of_the_host_cannot_be_reached(run):
    """They have no ids there; a signal to every process ends nothing outside."""
    output = await run(f"kill -9 {os.getpid()} {os.getppid()}; kill -9 -1; ls /proc | grep -c '^[0-9]'")
    assert int(output.text.split()[-1]) < 10


SYSTEM_CALLS = """
import ctypes, fcntl, os, platform, socket
library = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
calls = {
    "unshare": (272 if x86 else 97, 0x10000000), "clone": (56 if x86 else 220, 0x10000011, 0, 0, 0, 0),
    "mount": (165 if x86 else 40, 0, 0, 0, 0, 0), "keyctl": (250 if x86 else 219, 0, -3, 1),
    "setns": (308 if x86 else 268, 0, 0), "bpf": (321 if x86 else 280, 0, 0, 0), "io_uring": (425, 1, 0),
    "perf": (298 if x86 else 241, 0, 0, 0, 0, 0), "other_table": (0x40000000 | 39,),
}
for name, arguments in calls.items():
    print(name, library.syscall(*arguments), os.strerror(ctypes.get_errno()))
for family in (socket.AF_VSOCK, socket.AF_ALG, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_RAW if family == socket.AF_PACKET else socket.SOCK_SEQPACKET)
        print("open", family)
    except OSError as error:
        print("family", error.errno)
for request in (0x5412, 0x541C):
    try:
        fcntl.ioctl(0, request, b"x")
        print("typed")
    except OSError as error:
        print("ioctl", error.errno)
try:
    os.open("/dev/tty", os.O_RDWR)
    print("terminal")
except OSError as error:
    print("no terminal")
"""


async def test_calls_that_lead_out_are_refused(run):
    """Namespaces, mounts, keyrings, filters of the kernel, sockets of virtual machines, and typing into a terminal."""
    run.write("attack.py", SYSTEM_CALLS)
    output = await run("python3 attack.py; unshare -Ur true && echo unshared; mount -t tmpfs none /tmp && echo mounted")
    lines = output.text.splitlines()
    assert sum(" -1 Operation not permitted" in line for line in lines) == 9
    assert [lines.count("family 97"), lines.count("ioctl 1"), lines.count("no terminal")] == [3, 2, 1]
    assert not {"unshared", "mounted"} & set(lines)


HOG = "python3 -c 'x = bytearray(b\"1\") * 200_000_000; import time; time.sleep(60)'"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("command", "stopped"),
    [
        ("yes", "it wrote more than 64 MB"),
        ("while :; do sleep 60 & done", "it had more than 50 processes and threads"),
        (f"{HOG} & {HOG} & {HOG}", "it used more than 0.5 GB of memory"),
    ],
    ids=["output", "processes", "memory"],
)
async def test_what_never_ends_is_stopped(run, command, stopped, monkeypatch):
    """Endless output, ever more processes, and memory of many processes."""
    monkeypatch.setattr(process, "MEMORY", 2**29)
    monkeypatch.setattr(process, "MOST_TASKS", 50)
    output = await run(command)
    assert (output.note, output.is_error) == (f"[stopped: {stopped}]", True)
    assert len(output.text) <= 20_000


LIBRARY = "import ctypes, mmap, os, time; c = ctypes.CDLL(None, use_errno=True)"
SHARED = {
    "mapped": "x = [mmap.mmap(-1, 10**8) for _ in range(10)]; [m.write(b'1' * 10**8) for m in x]; time.sleep(60)",
    "unmapped in part": (
        "c.mmap.restype = ctypes.c_void_p; size = ctypes.c_size_t(100_003_840)\nfor _ in range(60):\n"
        " a = c.mmap(None, size, 3, 0x21, -1, 0); c.memset(ctypes.c_void_p(a), 1, size)\n"
        " c.munmap(ctypes.c_void_p(a + 4096), ctypes.c_size_t(100_003_840 - 4096))\ntime.sleep(60)"
    ),
    "memfd": "os.write(os.memfd_create('x'), b'1')",
    "segment": "print(c.shmget(0, ctypes.c_size_t(10**8), 0o1600), os.strerror(ctypes.get_errno()))",
    "large segment": "print(c.shmget(0, ctypes.c_size_t(2**32), 0o1600), os.strerror(ctypes.get_errno()))",
}
STOPPED = "[stopped: it used more than 0.5 GB of memory]"


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(
    ("kind", "text", "note", "has_group"),
    [
        ("memfd", "Function not implemented", "[exit code 1]", True),
        ("segment", "-1 Invalid argument", "[exit code 0]", True),
        ("large segment", "-1 Invalid argument", "[exit code 0]", True),
        ("mapped", "", STOPPED, False),
        *(("unmapped in part", "", STOPPED, has_group) for has_group in (True, False)),
    ],
)
async def test_shared_memory_counts(run, kind, text, note, has_group, monkeypatch):
    """Memory that several processes share, or that belongs to none, is limited with and without control groups."""
    monkeypatch.setattr(process, "MEMORY", 2**29)
    if not has_group:
        monkeypatch.setattr(process, "_places", lambda: ())
    run.write("hog.py", f"{LIBRARY}\n{SHARED[kind]}")
    output = await run("python3 hog.py")
    assert text in output.text
    assert output.note == note


@pytest.mark.exhaustive
async def test_programs_that_share_memory_work(run):
    """Processes of Python with queues, pools and named memory, git, and small segments as PostgreSQL needs them."""
    run.write(
        "shared.py",
        "import ctypes, multiprocessing as m\nfrom multiprocessing import shared_memory\n"
        "def double(x):\n    return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    print(m.Pool(2).map(double, [1, 2])); q = m.Queue(); q.put('item'); print(q.get())\n"
        "    s = shared_memory.SharedMemory(create=True, size=10**6); s.close(); s.unlink(); m.Array('d', 1000)\n"
        "    print(ctypes.CDLL(None).shmget(0, 56, 0o1600) >= 0)\n",
    )
    output = await run("python3 shared.py; git init -q /tmp/x && echo repository")
    assert output.text.split("\n") == ["[2, 4]", "item", "True", "repository", ""]


@pytest.mark.exhaustive
async def test_a_fork_counts_its_pages_once(run, monkeypatch):
    """Four processes that share what their parent has written are not taken for five times as much."""
    monkeypatch.setattr(process, "MEMORY", 2**29)
    program = (
        "import os, time; x = bytearray(b'1') * 200_000_000\n"
        "children = [os.fork() or (time.sleep(1), os._exit(0)) for _ in range(4)]\n"
        "[os.waitpid(one, 0) for one in children]; print('done')"
    )
    run.write("forks.py", program)
    output = await run("python3 forks.py")
    assert (output.text, output.note) == ("done\n", "[exit code 0]")


@pytest.mark.exhaustive
async def test_disks_have_a_size(run):
    """The folders in memory end at their size, and a process at its memory."""
    output = await run(
        "dd if=/dev/zero of=/tmp/x bs=8M count=40; dd if=/dev/zero of=/dev/shm/x bs=8M count=40;"
        "ls -s --block-size=M /tmp/x /dev/shm/x; python3 -c 'bytearray(3 * 1024**3)'"
    )
    assert output.text.count("No space left on device") == 2
    assert "256M /tmp/x" in output.text
    assert "64M /dev/shm/x" in output.text
    assert "MemoryError" in output.text
