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
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.specialist.problems import shown
from run_specialist.tools.file_checkpoint import FileCheckpoint
from run_specialist.tools.sandbox import Sandbox
from run_specialist.tools.shell import system_sandbox
from run_specialist.tools.shell.places import GitFolder, ShownFiles, git_folder, plain_config, shown_files
from run_specialist.tools.shell.system_sandbox import filter_for
from run_specialist.tools.threads import in_thread


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

MOST_TASKS = 256
"""Maximum number of processes and threads of one command."""
GROUPS = Path("/sys/fs/cgroup")

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_NAME = "run-specialist-"
_SHARED = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ...s ([0-9a-f]+) (\S+ \d+) +/(?:dev/zero|SYSV|memfd:)", re.MULTILINE)
"""A mapping of memory that processes share: its addresses, offset, and object."""
_KIBIBYTES = re.compile(rb"^(Pss_Anon|SwapPss):\s+(\d+) kB", re.MULTILINE)
_EACH_TIME = 5
"""Number of measurements after which shared memory is counted, too."""


class SandboxUsage:
    """Measures the usage of one sandbox again and again."""

    def __init__(self, most: int, folders: int) -> None:
        """Begin before the sandbox is made.

        most: maximum memory of its processes [bytes].
        folders: maximum size of its folders in memory [bytes].
        """
        self._most = most
        self._folders = folders
        self._measured = self._shared = 0
        self._shmem_before = _shared_of_system()

    def measure(self, init: int) -> tuple[int, int]:
        """Return the number of tasks of the sandbox, and its memory [bytes].

        init: its first process, whose /proc contains only the processes of the sandbox.
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
        tasks, private = 0, 0
        for one in processes:
            with suppress(OSError, ValueError, IndexError):
                tasks += (one / "task").stat().st_nlink - 2
                resident, shared = map(int, (one / "statm").read_bytes().split()[1:3])
                private += (resident - shared) * _PAGE
        if self._measured % _EACH_TIME == 0:
            self._shared = self._shared_memory(processes)
        self._measured += 1
        if private + self._shared > self._most:
            # After a fork processes have the same pages, of which each is to count once.
            private = _proportional(processes, private)
        return tasks, private + self._shared

    def _shared_memory(self, processes: Sequence[Path]) -> int:
        """Return the size of the memory that processes share without a file [bytes]."""
        ends: dict[bytes, int] = {}
        for one in processes:
            with suppress(OSError):
                for begin, end, offset, thing in _SHARED.findall((one / "maps").read_bytes()):
                    size = int(end, 16) - int(begin, 16) + int(offset, 16)
                    ends[thing] = max(ends.get(thing, 0), size)
        if not ends:
            return 0
        # An object keeps its pages as long as any part of it is mapped.
        grown = _shared_of_system() - self._shmem_before - self._folders
        return max(sum(ends.values()), grown if grown > self._most else 0)


def _proportional(processes: Sequence[Path], otherwise: int) -> int:
    """Return the private memory of processes, a page of several of them counted once, with what is swapped [bytes].

    otherwise: returned if the kernel does not report it.
    """
    total, is_known = 0, False
    for one in processes:
        with suppress(OSError):
            found = _KIBIBYTES.findall((one / "smaps_rollup").read_bytes())
            is_known = is_known or any(name == b"Pss_Anon" for name, _ in found)
            total += sum(int(size) * 1024 for _, size in found)
    return total if is_known else otherwise


def _shared_of_system() -> int:
    """Return the shared memory and the folders in memory of the whole system [bytes]."""
    with suppress(OSError, ValueError):
        found = re.search(rb"^Shmem:\s+(\d+) kB", Path("/proc/meminfo").read_bytes(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A control group that limits the memory of one sandbox."""

    folder: Path

    @classmethod
    def make(cls, most: int) -> "MemoryGroup | None":
        """Make a group; None if this system has none that can be made.

        most: maximum memory of its processes, with folders in memory [bytes].
        """
        for above, limits in _places():
            # Processes that were killed leave their groups; those with processes cannot be removed.
            with suppress(OSError):
                for one in above.iterdir():
                    if one.name.startswith(_NAME) and not Path("/proc", one.name.split("-")[2]).exists():
                        with suppress(OSError):
                            one.rmdir()
            group = cls(above / f"{_NAME}{os.getpid()}-{secrets.token_hex(4)}")
            try:
                group.folder.mkdir()
                (group.folder / limits[0]).write_text(str(most))
            except OSError:
                group.remove()
                continue
            # Not every kernel has these.
            with suppress(OSError):
                (group.folder / limits[1]).write_text("0" if limits[1] == "memory.swap.max" else str(most))
            return group
        return None

    def entering(self, command: Sequence[str]) -> list[str]:
        """Return a command that enters the group and then becomes another one, which runs in any case."""
        enter = 'echo $$ 2>/dev/null > "$0"; exec "$@"'
        return ["/bin/sh", "-c", enter, str(self.folder / "cgroup.procs"), *command]

    @property
    def has_killed(self) -> bool:
        """Whether the kernel has ended a process because of the limit."""
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                found = re.search(r"^oom_kill (\d+)", (self.folder / name).read_text(), re.MULTILINE)
                if found:
                    return int(found[1]) > 0
        return False

    def remove(self) -> None:
        """Remove the group; it must be empty."""
        with suppress(OSError):
            self.folder.rmdir()


def _places() -> Iterator[tuple[Path, tuple[str, str]]]:
    """Yield the folders in which a group may be made, with the files of its limits of memory and swap."""
    try:
        lines = Path("/proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        own = path.strip("/")
        if kinds == "memory":
            yield GROUPS / "memory" / own, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        elif not kinds and own:
            # A group with processes has no others below it that limit memory, but one beside it may.
            yield (GROUPS / own).parent, ("memory.max", "memory.swap.max")


MOST_OUTPUT = 64 * 1024**2
"""Maximum output of one command [bytes]."""

_DRAINED_WITHIN = 1.0


class WatchedProcess(asyncio.SubprocessProtocol):
    """Collects the output of a process as it comes, and notes its end."""

    def __init__(self, output: KeptOutput, loop: asyncio.AbstractEventLoop) -> None:
        self._output = output
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done once no process has the pipe."""
        self.ready: asyncio.Future[None] = loop.create_future()
        """Done once the shell in the sandbox has said so, by a NUL before all output."""
        self.flooded: asyncio.Future[None] = loop.create_future()
        """Done once there is too much output."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - there is one pipe
        """Take output, without the NUL that says that the shell is ready."""
        if not self.ready.done():
            before, mark, rest = data.partition(b"\0")
            data = before + rest
            if mark:
                _set(self.ready)
        self._output.add(data)
        if self._output.total > MOST_OUTPUT:
            _set(self.flooded)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - as above
        """Note that no process has the pipe."""
        _set(self.closed)

    def process_exited(self) -> None:
        """Note that the process has ended."""
        _set(self.exited)

    async def ended(self) -> None:
        """Wait for the end of the process and of its output, which a process that it left behind may keep open."""
        await asyncio.wait([self.exited])
        await asyncio.wait([self.closed], timeout=_DRAINED_WITHIN)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


# Run one sandboxed command: limit its output, count its processes, and end all of them with the call.
#
# The kernel ends the sandbox with this program, but only after `bwrap` has requested that. The command waits until
# then, so it never runs if this program is killed before.

MEMORY = 2 * 1024**3
"""Maximum memory of all processes of one command, without folders in memory [bytes]."""
FOLDERS = 320 * 1024**2
"""Total size of its folders in memory, /tmp and /dev/shm [bytes]."""

_STATUS = 4_096
_POLL = 0.02
_GONE_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class CommandExit:
    """How a command ended."""

    exit_code: int | None
    """Exit code; None if it was stopped, or if there was no sandbox for it."""
    stopped: str = ""
    """Why it was stopped, as a clause; empty if it ended by itself."""


class SandboxedProcess:
    """One command in its sandbox."""

    def __init__(self, output: KeptOutput, *, has_status: bool = True) -> None:
        """Set up a process without starting it.

        output: takes standard output and standard error.
        has_status: whether the sandbox reports its first process and the exit code, as `bwrap` does.
        """
        self._output = output
        self._reading: int | None = None
        self.status = -1
        """Descriptor to which the sandbox writes."""
        if has_status:
            self._reading, self.status = os.pipe()
            os.set_blocking(self._reading, False)
        self._said = b""
        self._init: int | None = None
        self._usage = SandboxUsage(MEMORY, FOLDERS)
        self._group = MemoryGroup.make(MEMORY + FOLDERS) if has_status else None
        self._held: int | None = None
        """Descriptor of the sandbox's first process, without which no other process exists there."""

    async def run(
        self,
        command: Sequence[str],
        seconds: float,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        folder: Path = Path("/"),
    ) -> CommandExit:
        """Run a command; all its processes have ended when this returns or raises.

        seconds: maximum time.
        descriptors: those that the sandbox reads.
        environment: all variables; by default none, because the first process of a sandbox shows its own to all others.
        Raises OSError if it cannot be started.
        """
        loop = asyncio.get_running_loop()
        standard_input, release = os.pipe()
        if self._group is not None and os.access(command[0], os.X_OK):
            command = self._group.entering(command)
        try:
            transport, watched = await loop.subprocess_exec(
                lambda: WatchedProcess(self._output, loop),
                *command,
                stdin=standard_input,
                stdout=PIPE,
                stderr=STDOUT,
                env=dict(environment or {}),
                cwd=folder,
                pass_fds=(*descriptors, *(() if self._reading is None else (self.status,))),
                # Ctrl-C must not stop the command: the run does so.
                start_new_session=True,
            )
        except BaseException:
            self._close()
            os.close(release)
            raise
        finally:
            os.close(standard_input)
            if self._reading is not None:
                os.close(self.status)
        ended, watching = asyncio.ensure_future(watched.ended()), asyncio.ensure_future(self._watch())
        beginning = asyncio.ensure_future(self._begin(watched, transport.get_pid(), release))
        try:
            awaited: list[asyncio.Future[Any]] = [ended, watching, watched.flooded]
            done, _ = await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if self._group is not None and self._group.has_killed:
                return CommandExit(None, _too_much_memory())
            if ended in done:
                code = transport.get_returncode()
                if self._reading is not None:
                    # The code of `bwrap` itself, or of its first process, says nothing about the command.
                    self._find_init()
                    code = _first(self._said, "exit-code")
                return CommandExit(code if watched.ready.done() else None)
            if watched.flooded in done:
                return CommandExit(None, f"it wrote more than {MOST_OUTPUT // 1024**2} MB")
            return CommandExit(None, watching.result() if done else f"it took more than {seconds:.3g} seconds")
        finally:
            self._kill(transport.get_pid())
            for task in (ended, watching, beginning):
                task.cancel()
            await self._wait_until_gone(watched)
            transport.close()
            self._close()
            os.close(release)

    async def _begin(self, watched: WatchedProcess, pid: int, release: int) -> None:
        """Let the command run, once the sandbox is bound to this program.

        release: descriptor to which a line is written; the command waits for it on its standard input.
        """
        await asyncio.wait([watched.ready])
        while self._reading is not None:
            # `bwrap` and the sandbox's first process wait only once everything is set up.
            self._find_init()
            if self._init is not None and all(_state(one) == "S" for one in (pid, self._init)):
                break
            await asyncio.sleep(_POLL / 10)
        with suppress(OSError):
            os.write(release, b"\n")

    async def _watch(self) -> str:
        """Wait until the command must be stopped, and return the reason."""
        while True:
            self._find_init()
            if self._init is not None:
                tasks, memory = self._usage.measure(self._init)
                if tasks > MOST_TASKS:
                    return f"it had more than {MOST_TASKS} processes and threads"
                if memory > MEMORY or (self._group is not None and self._group.has_killed):
                    return _too_much_memory()
            await asyncio.sleep(_POLL)

    def _find_init(self) -> None:
        if self._reading is None:
            return
        with suppress(BlockingIOError):
            self._said += os.read(self._reading, _STATUS)
        if self._init is None and (found := _first(self._said, "child-pid")) is not None:
            with suppress(OSError):
                self._held = os.pidfd_open(found)
                self._init = found

    def _close(self) -> None:
        if self._reading is not None:
            os.close(self._reading)
        if self._group is not None:
            self._group.remove()

    def _kill(self, pid: int) -> None:
        self._find_init()
        if self._held is not None:
            # Only root may do this, whose processes the kernel does not limit; among many it would wait for its turn.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._init or 0, -20)
            with suppress(OSError):
                signal.pidfd_send_signal(self._held, signal.SIGKILL)
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)

    async def _wait_until_gone(self, watched: WatchedProcess) -> None:
        await asyncio.wait([watched.exited], timeout=_GONE_WITHIN)
        if self._held is None:
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        try:
            # The kernel ends the first process of a namespace after all others.
            loop.add_reader(self._held, gone.set)
            with suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), _GONE_WITHIN)
        finally:
            loop.remove_reader(self._held)
            os.close(self._held)
            self._held = None


def _too_much_memory() -> str:
    return f"it used more than {MEMORY / 1024**3:.3g} GB of memory"


def _state(pid: int) -> str:
    """Return the state of a process as one letter, `S` for one that waits; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _first(said: bytes, key: str) -> int | None:
    """Return a value of the JSON documents that `bwrap` writes, one per line."""
    for line in said.splitlines():
        with suppress(ValueError):
            document = json.loads(line)
            if key in document:
                return int(document[key])
    return None


LARGEST_FILE = 1024**3
"""Maximum size of a file that a command writes [bytes]."""

# A shell sets the limits, which no process in the sandbox can raise again. It says that it is ready, waits for a line,
# which never comes if this program has ended, and then becomes the shell of the command.
_LIMITED = (
    f"ulimit -c 0; ulimit -f {LARGEST_FILE // 1024}; ulimit -d {MEMORY // 1024}; ulimit -n 1024; ulimit -t {{seconds}};"
    """ {processes}printf '\\000'; read -r go || exit 1; exec "$0" -c -- "$1" </dev/null"""
)
_PROCESSES = f"ulimit -u {MOST_TASKS} 2>/dev/null || ulimit -p {MOST_TASKS} 2>/dev/null; "
"""Limit of processes; has no effect for root and is not exact in some shells, so processes are counted, too."""
_COUNTS_PER_SANDBOX = (5, 14)
"""Linux version from which on a process limit applies to the sandbox instead of to all processes of the user."""


class OneCommand:
    """Runs the command lines of a run."""

    def __init__(self, sandbox: Sandbox, writable: Sequence[str]) -> None:
        """Set the files.

        sandbox: the files that the file tools see.
        writable: as `writable_places` returns them.
        """
        self._sandbox = sandbox
        self._writable = writable

    async def run(
        self, line: str, output: KeptOutput, seconds: float, checkpoint: FileCheckpoint | None = None
    ) -> CommandExit:
        """Run a command line; return how it ended.

        checkpoint: that of the writable places; None if there are none.
        Raises ToolError if there is no sandbox for it.
        """
        protected = checkpoint.before.mounted() if checkpoint else []
        files, git = await in_thread(lambda: self._look(protected))
        root, release = self._sandbox.root, re.match(r"(\d+)\.(\d+)", platform.release())
        is_linux = sys.platform == "linux"
        counts = is_linux and release is not None and (int(release[1]), int(release[2])) >= _COUNTS_PER_SANDBOX
        limited = _LIMITED.format(seconds=max(round(seconds), 1), processes=_PROCESSES if counts else "")
        words = [system_sandbox.shell(), "-c", limited, system_sandbox.shell(), line]
        try:
            with ExitStack() as opened:
                if is_linux:
                    configs = git.configs if git else ()
                    data = {path: opened.enter_context(_holding(os.fsencode(plain_config(path)))) for path in configs}
                    process = SandboxedProcess(output)
                    calls = opened.enter_context(_holding(filter_for() or b""))
                    options = system_sandbox.options(root, files, git, process.status, calls, data)
                    given = opened.enter_context(_holding(b"\0".join(map(os.fsencode, options))))
                    command = [system_sandbox.program() or system_sandbox.BWRAP, "--args", str(given), "--", *words]
                    ended = await process.run(command, seconds, (given, calls, *data.values()))
                else:
                    own = opened.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
                    real = await in_thread(Path(own).resolve)
                    environment = system_sandbox.VARIABLES | {"HOME": str(real), "TMPDIR": str(real)}
                    command = system_sandbox.command(root, files, git, real, words)
                    process = SandboxedProcess(output, has_status=False)
                    ended = await process.run(command, seconds, (), environment, root)
        except (OSError, ValueError) as error:
            raise ToolError(f"the sandbox cannot be started: {error}") from error
        if ended.exit_code is None and not ended.stopped:
            said = output.text(2_000).strip().splitlines() or ["no reason was given"]
            raise ToolError(f"the sandbox cannot be made: {shown(said[-1])}")
        return ended

    def _look(self, protected: Sequence[str]) -> tuple[ShownFiles, GitFolder | None]:
        """Return the files that a command sees, and the git folder if it is known to be safe; blocks."""
        root = self._sandbox.root
        files = shown_files(self._sandbox, self._writable, protected)
        git = git_folder(root) if "" in files.starts else None
        own = root / ".git"
        if "" in files.starts and git is None and not own.is_symlink() and own.exists():
            if own.is_dir():
                files = replace(files, hidden_folders=(*files.hidden_folders, ".git"))
            else:
                files = replace(files, hidden_files=(*files.hidden_files, ".git"))
        return files, git


@contextmanager
def _holding(content: bytes) -> Iterator[int]:
    """Return a descriptor from which a content can be read."""
    descriptor = os.memfd_create("run-specialist")
    try:
        with suppress(OSError):
            os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
