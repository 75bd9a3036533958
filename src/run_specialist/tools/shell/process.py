"""Run one sandboxed command: its limits, its output, its end."""

import asyncio
import json
import os
import platform
import re
import secrets
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from run_specialist.errors import ToolError, errors_as
from run_specialist.specialist.problems import shown
from run_specialist.tools.file_checkpoint import FileCheckpoint
from run_specialist.tools.sandbox import Sandbox
from run_specialist.tools.shell import system_sandbox
from run_specialist.tools.shell.places import command_files, plain_config
from run_specialist.tools.shell.system_sandbox import filter_for
from run_specialist.tools.threads import exits_within, in_thread, running, signal_group

MEMORY = 2 * 1024**3
"""Maximum memory of all processes of one command, without folders in memory [bytes]."""
FOLDERS = 320 * 1024**2
"""Total size of its folders in memory, /tmp and /dev/shm [bytes]."""
MOST_TASKS = 256
"""Maximum number of processes and threads of one command."""
# Maximum output of one command [bytes].
_MOST_OUTPUT = 64 * 1024**2
LARGEST_FILE = 1024**3
"""Maximum size of a file that a command writes [bytes]."""


class KeptOutput:
    """Keeps a bounded part of the output, however long it is."""

    def __init__(self, most: int) -> None:
        """Keep at most this many bytes, half of them from the beginning."""
        self._most = max(most // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Total output so far [bytes]."""

    def add(self, chunk: bytes) -> None:
        """Add the next part."""
        self.total += len(chunk)
        room = self._most - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        del self._tail[: -self._most]

    def text(self, limit: int) -> str:
        """Return the output, with a line for the omitted part.

        limit: maximum length [characters].
        """
        left_out = self.total - len(self._head) - len(self._tail)
        if left_out == 0 and len(whole := _decoded(self._head + self._tail)) <= limit:
            return whole
        head, tail = _decoded(self._head), _decoded(self._tail)
        if left_out == 0:
            head, tail = whole, whole
        note = f"\n[... of {self.total:,} bytes only the beginning and the end are here ...]\n"
        room = max(limit - len(note), 2) // 2
        return (head[:room] + note + tail[-room:])[:limit]


def _decoded(raw: bytes | bytearray) -> str:
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    # Control characters, such as those of colors, say nothing to a model.
    return "".join(one for one in text if one >= " " or one in "\n\t")


# The tasks and the memory of the processes in a sandbox: a control group where one can be made, and counting.
#
# A control group counts every page, but only some systems let a user make one. Everywhere else the pages of the
# processes are counted. Memory that no process maps, such as that of `memfd_create`, cannot be counted, so the filter
# of system calls refuses it; shared memory that a process has unmapped in part is seen by the growth of the whole
# system's.
#
# Sources: the kernel's documentation of proc(5), cgroup-v1/memory and cgroup-v2.

GROUPS = Path("/sys/fs/cgroup")

_NAME = "run-specialist-"
_STATUS = re.compile(rb"^(Threads|RssAnon|RssShmem|VmSwap):\s+(\d+)", re.MULTILINE)
_SHARES = re.compile(rb"^(Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+)", re.MULTILINE)
# A mapping of memory that processes share.
_SHARED = re.compile(rb"^\S+ ...s \S+ \S+ \d+ +/(?:dev/zero|SYSV|memfd:)", re.MULTILINE)


def usage(init: int, shared_before: int) -> tuple[int, int]:
    """Return the number of tasks of a sandbox, and its memory [bytes].

    init: its first process, whose /proc contains only the processes of the sandbox.
    shared_before: shared memory of the whole system before [bytes].
    """
    processes: list[Path] = []
    here = Path(f"/proc/{init}/root/proc")
    with suppress(OSError):
        # Before the sandbox is made, those are the processes of the host.
        if here.stat().st_dev != Path("/proc").stat().st_dev:
            processes = [one for one in here.iterdir() if one.name.isdecimal()]
    if len(processes) > MOST_TASKS:
        # Looking at each takes time, in which there will be more.
        return len(processes), 0
    found = [dict(_STATUS.findall(_read(one / "status"))) for one in processes]
    tasks = sum(int(one.pop(b"Threads", 0)) for one in found)
    memory = 1024 * sum(int(size) for one in found for size in one.values())
    if memory > MEMORY:
        # After a fork processes have the same pages, of which each is to count once; not every kernel reports that.
        shares = [int(size) for one in processes for _, size in _SHARES.findall(_read(one / "smaps_rollup"))]
        memory = 1024 * sum(shares) if shares else memory
    grown = shared_memory() - shared_before - FOLDERS
    # Shared memory keeps its pages as long as any part of it is mapped.
    if grown > MEMORY and any(_SHARED.search(_read(one / "maps")) for one in processes):
        memory = max(memory, grown)
    return tasks, memory


def shared_memory() -> int:
    """Return the shared memory and the folders in memory of the whole system [bytes]."""
    found = re.search(rb"^Shmem:\s+(\d+) kB", _read(Path("/proc/meminfo")), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _read(file: Path) -> bytes:
    with suppress(OSError):
        return file.read_bytes()
    return b""


class MemoryGroup:
    """A control group that limits the memory of one sandbox; without effect where none can be made."""

    def __init__(self, most: int) -> None:
        """Make the group.

        most: maximum memory of its processes, with folders in memory [bytes].
        """
        self._folder: Path | None = None
        for above, limits in _places():
            # Processes that were killed leave their groups; those with processes cannot be removed.
            with suppress(OSError):
                for one in above.iterdir():
                    if one.name.startswith(_NAME) and not Path("/proc", one.name.split("-")[2]).exists():
                        with suppress(OSError):
                            one.rmdir()
            folder = above / f"{_NAME}{os.getpid()}-{secrets.token_hex(4)}"
            with suppress(OSError):
                folder.mkdir()
                self._folder = folder
                (folder / limits[0]).write_text(str(most))
                # Not every kernel has these.
                with suppress(OSError):
                    (folder / limits[1]).write_text("0" if limits[1] == "memory.swap.max" else str(most))
                return
            self.remove()

    def entering(self, command: Sequence[str]) -> list[str]:
        """Return a command that enters the group and then becomes another one, which runs in any case."""
        if self._folder is None or not os.access(command[0], os.X_OK):
            return [*command]
        enter = 'echo $$ 2>/dev/null > "$0"; exec "$@"'
        return ["/bin/sh", "-c", enter, str(self._folder / "cgroup.procs"), *command]

    @property
    def has_killed(self) -> bool:
        """Whether the kernel has ended a process because of the limit."""
        files = [self._folder / name for name in ("memory.events", "memory.oom_control")] if self._folder else []
        return any(re.search(rb"^oom_kill [1-9]", _read(file), re.MULTILINE) for file in files)

    def remove(self) -> None:
        """Remove the group; it must be empty."""
        if self._folder is not None:
            with suppress(OSError):
                self._folder.rmdir()
            self._folder = None


def _places() -> Iterator[tuple[Path, tuple[str, str]]]:
    """Yield the folders in which a group may be made, with the files of its limits of memory and swap."""
    for line in _read(Path("/proc/self/cgroup")).decode("utf-8", "replace").splitlines():
        _, kinds, path = line.split(":", 2)
        own = path.strip("/")
        if kinds == "memory":
            yield GROUPS / "memory" / own, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        elif not kinds and own:
            # A group with processes has no others below it that limit memory, but one beside it may.
            yield (GROUPS / own).parent, ("memory.max", "memory.swap.max")


# Run one sandboxed command: limit its output, count its processes, and end all of them with the call.
#
# The kernel ends the sandbox with this program, but only after `bwrap` has requested that. The command waits until
# then, so it never runs if this program is killed before.

_POLL = 0.02
_GONE_WITHIN = 5.0


Exit = tuple[int | None, str]
"""How a command ended: its exit code, None if it was stopped, or if there was no sandbox for it; and why it was
stopped, as a clause, empty if it ended by itself."""


class SandboxedProcess:
    """One command in its sandbox."""

    def __init__(self, output: KeptOutput, opened: ExitStack, *, has_status: bool = True) -> None:
        """Set up a process without starting it.

        output: takes standard output and standard error.
        opened: closes what the process needs, after its end.
        has_status: whether the sandbox reports its first process and the exit code, as `bwrap` does.
        """
        self._output = output
        self._opened = opened
        # Descriptors from which the status of the sandbox is read, and to which the sandbox writes it.
        self._reports: int | None
        self._reports, self.status = self._pipe() if has_status else (None, -1)
        if self._reports is not None:
            os.set_blocking(self._reports, False)
        self._group = MemoryGroup(MEMORY + FOLDERS)
        opened.callback(self._group.remove)
        self._said = b""
        # Whether the shell in the sandbox has said so, by a NUL before all output.
        self._is_ready = False
        self._init: int | None = None
        # Descriptor of the sandbox's first process, without which no other process exists there.
        self._held: int | None = None
        self._shared_before = shared_memory()

    def _pipe(self) -> tuple[int, int]:
        """Return the descriptors of a new pipe, to read and to write; both are closed in the end."""
        both = os.pipe()
        for one in both:
            self._opened.callback(os.close, one)
        return both

    async def run(
        self,
        command: Sequence[str],
        seconds: float,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        folder: Path = Path("/"),
    ) -> Exit:
        """Run a command; all its processes have ended when this returns or raises.

        seconds: maximum time.
        descriptors: those that the sandbox reads.
        environment: all variables; by default none, because the first process of a sandbox shows its own to all others.
        Raises OSError if it cannot be started.
        """
        standard_input, release = self._pipe()
        given = [*descriptors, *([] if self._reports is None else [self.status])]
        pipes = {"stdin": standard_input, "stdout": PIPE, "stderr": STDOUT}
        async with running(
            self._group.entering(command), env=dict(environment or {}), cwd=folder, pass_fds=given, **pipes
        ) as process:
            reading = asyncio.ensure_future(self._read_output(process))
            try:
                return await self._ended(process, reading, release, seconds)
            finally:
                await self._kill(process)
                reading.cancel()

    async def _read_output(self, process: Process) -> None:
        assert process.stdout is not None  # noqa: S101 - stdout is a pipe
        while self._output.total <= _MOST_OUTPUT and (data := await process.stdout.read(65_536)):
            if not self._is_ready:
                before, mark, after = data.partition(b"\0")
                self._is_ready, data = bool(mark), before + after
            self._output.add(data)

    async def _ended(self, process: Process, reading: "asyncio.Future[None]", release: int, seconds: float) -> Exit:
        """Wait until the command has ended, or must be stopped.

        release: descriptor to which a line is written; the command waits for it on its standard input.
        """
        until, has_begun, stopped = asyncio.get_running_loop().time() + seconds, False, ""
        too_much = f"it used more than {MEMORY / 1024**3:.3g} GB of memory"
        while process.returncode is None and not stopped and self._output.total <= _MOST_OUTPUT:
            self._find_init()
            if not has_begun and self._is_ready and self._is_bound(process.pid):
                has_begun = True
                self._begin(release)
            tasks, memory = (0, 0) if self._init is None else usage(self._init, self._shared_before)
            if asyncio.get_running_loop().time() > until:
                stopped = f"it took more than {seconds:.3g} seconds"
            elif tasks > MOST_TASKS:
                stopped = f"it had more than {MOST_TASKS} processes and threads"
            elif memory > MEMORY or self._group.has_killed:
                stopped = too_much
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL if has_begun else _POLL / 10):
                    await process.wait()
        if not stopped:
            # A process that it left behind may keep the output open.
            await asyncio.wait([reading], timeout=1.0 if self._output.total <= _MOST_OUTPUT else 0)
            if self._output.total > _MOST_OUTPUT:
                stopped = f"it wrote more than {_MOST_OUTPUT // 1024**2} MB"
            elif self._group.has_killed:
                stopped = too_much
        code = process.returncode
        if self._reports is not None:
            # The code of `bwrap` itself, or of its first process, says nothing about the command.
            self._find_init()
            code = _first(self._said, "exit-code")
        return code if self._is_ready and not stopped else None, stopped

    def _is_bound(self, pid: int) -> bool:
        """Return whether the sandbox would end with this program."""
        # `bwrap` and the sandbox's first process wait only once everything is set up.
        return self._reports is None or (
            self._init is not None
            and all(_read(Path(f"/proc/{one}/stat")).rpartition(b")")[2][:2] == b" S" for one in (pid, self._init))
        )

    def _begin(self, release: int) -> None:
        with suppress(OSError):
            os.write(release, b"\n")

    def _find_init(self) -> None:
        if self._reports is None:
            return
        with suppress(BlockingIOError):
            self._said += os.read(self._reports, 4_096)
        if self._init is None and (found := _first(self._said, "child-pid")) is not None:
            with suppress(OSError):
                self._held = os.pidfd_open(found)
                self._opened.callback(os.close, self._held)
                self._init = found

    async def _kill(self, process: Process) -> None:
        """End all processes, and wait until they are gone."""
        self._find_init()
        if self._held is not None:
            # Only root may do this, whose processes the kernel does not limit; among many it would wait for its turn.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._init or 0, -20)
            with suppress(OSError):
                signal.pidfd_send_signal(self._held, signal.SIGKILL)
        signal_group(process.pid, signal.SIGKILL)
        await exits_within(process, _GONE_WITHIN)
        if self._held is not None:
            loop, gone = asyncio.get_running_loop(), asyncio.Event()
            # The kernel ends the first process of a namespace after all others.
            loop.add_reader(self._held, gone.set)
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(gone.wait(), _GONE_WITHIN)
            finally:
                loop.remove_reader(self._held)


def _first(said: bytes, key: str) -> int | None:
    """Return a value of the JSON documents that `bwrap` writes, one per line."""
    for line in said.splitlines():
        with suppress(ValueError):
            document = json.loads(line)
            if key in document:
                return int(document[key])
    return None


# A shell sets the limits, which no process in the sandbox can raise again. It says that it is ready, waits for a line,
# which never comes if this program has ended, and then becomes the shell of the command.
_LIMITED = (
    f"ulimit -c 0; ulimit -f {LARGEST_FILE // 1024}; ulimit -d {MEMORY // 1024}; ulimit -n 1024; ulimit -t {{seconds}};"
    """ {processes}printf '\\000'; read -r go || exit 1; exec "$0" -c -- "$1" </dev/null"""
)
# Limit of processes; has no effect for root and is not exact in some shells, so processes are counted, too.
_PROCESSES = f"ulimit -u {MOST_TASKS} 2>/dev/null || ulimit -p {MOST_TASKS} 2>/dev/null; "
# Linux version from which on a process limit applies to the sandbox instead of to all processes of the user.
_COUNTS_PER_SANDBOX = (5, 14)


async def run_command(  # noqa: PLR0913, PLR0917 - a command, its files and its limits
    sandbox: Sandbox,
    writable: Sequence[str],
    line: str,
    output: KeptOutput,
    seconds: float,
    checkpoint: FileCheckpoint | None = None,
) -> Exit:
    """Run a command line; return how it ended.

    sandbox: the files that the file tools see.
    writable: as `writable_places` returns them.
    checkpoint: that of the writable places; None if there are none.
    Raises ToolError if there is no sandbox for it.
    """
    root, release = sandbox.root, re.match(r"(\d+)\.(\d+)", platform.release())
    is_linux = sys.platform == "linux"
    counts = is_linux and release is not None and (int(release[1]), int(release[2])) >= _COUNTS_PER_SANDBOX
    limited = _LIMITED.format(seconds=max(round(seconds), 1), processes=_PROCESSES if counts else "")
    words = [system_sandbox.shell(), "-c", limited, system_sandbox.shell(), line]
    places = checkpoint.before.protected.items() if checkpoint else ()
    protected = [path for path, target in places if target is None]  # a sandbox cannot show a symlink read-only
    with errors_as(ToolError, "the sandbox cannot be started", OSError, ValueError):
        files = await in_thread(lambda: command_files(sandbox, writable, protected))
        with ExitStack() as opened:
            process = SandboxedProcess(output, opened, has_status=is_linux)
            if is_linux:
                settings = {
                    path: opened.enter_context(_holding(os.fsencode(plain_config(path)))) for path in files.git_settings
                }
                calls = opened.enter_context(_holding(filter_for() or b""))
                options = system_sandbox.options(root, files, process.status, calls, settings)
                given = opened.enter_context(_holding(b"\0".join(map(os.fsencode, options))))
                command = [system_sandbox.program() or "bwrap", "--args", str(given), "--", *words]
                ended = await process.run(command, seconds, (given, calls, *settings.values()))
            else:
                own = opened.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
                real = await in_thread(Path(own).resolve)
                environment = system_sandbox.VARIABLES | {"HOME": str(real), "TMPDIR": str(real)}
                environment["PATH"] = system_sandbox.search_path(files)
                command = [system_sandbox.SANDBOX_EXEC, "-p", system_sandbox.profile(root, files, real), *words]
                ended = await process.run(command, seconds, (), environment, root)
    if ended == (None, ""):
        said = output.text(2_000).strip().splitlines() or ["no reason was given"]
        raise ToolError(f"the sandbox cannot be made: {shown(said[-1])}")
    return ended


@contextmanager
def _holding(content: bytes) -> Iterator[int]:
    """Return a descriptor from which a content can be read."""
    with os.fdopen(os.memfd_create("run-specialist"), "wb", 0) as file:
        with suppress(OSError):
            file.write(content)
        file.seek(0)
        yield file.fileno()
