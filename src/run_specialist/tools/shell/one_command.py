"""Run one command line in the system's sandbox, with the files that it may currently see."""

import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.specialist.problems import shown
from run_specialist.tools.editing.file_checkpoint import FileCheckpoint
from run_specialist.tools.sandbox.sandbox import Sandbox
from run_specialist.tools.shell import bubblewrap, seatbelt
from run_specialist.tools.shell.git_folder import GitFolder, git_folder, plain_config
from run_specialist.tools.shell.kept_output import KeptOutput
from run_specialist.tools.shell.sandboxed_process import MEMORY, CommandExit, SandboxedProcess
from run_specialist.tools.shell.shown_files import ShownFiles, shown_files
from run_specialist.tools.shell.system_calls import filter_for
from run_specialist.tools.shell.usage import MOST_TASKS
from run_specialist.tools.threads import in_thread

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


@dataclass(frozen=True, slots=True)
class _View:
    files: ShownFiles
    git: GitFolder | None


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
        return await self._run(await in_thread(lambda: self._look(protected)), line, output, seconds)

    def _look(self, protected: Sequence[str]) -> _View:
        root = self._sandbox.root
        files = shown_files(self._sandbox, self._writable, protected)
        git = git_folder(root) if "" in files.starts else None
        own = root / ".git"
        if "" in files.starts and git is None and not own.is_symlink() and own.exists():
            # It is none that is known to be safe.
            if own.is_dir():
                files = replace(files, hidden_folders=(*files.hidden_folders, ".git"))
            else:
                files = replace(files, hidden_files=(*files.hidden_files, ".git"))
        return _View(files, git)

    async def _run(self, view: _View, line: str, output: KeptOutput, seconds: float) -> CommandExit:
        limited = _LIMITED.format(
            seconds=max(round(seconds), 1), processes=_PROCESSES if _limits_sandbox(platform.release()) else ""
        )
        words = [bubblewrap.shell(), "-c", limited, bubblewrap.shell(), line]
        try:
            if sys.platform == "linux":
                ended = await self._in_namespaces(view, words, output, seconds)
            else:
                ended = await self._in_seatbelt(view, words, output, seconds)
        except (OSError, ValueError) as error:
            raise ToolError(f"the sandbox cannot be started: {error}") from error
        if ended.exit_code is None and not ended.stopped:
            said = output.text(2_000).strip().splitlines() or ["no reason was given"]
            raise ToolError(f"the sandbox cannot be made: {shown(said[-1])}")
        return ended

    async def _in_namespaces(
        self, view: _View, words: Sequence[str], output: KeptOutput, seconds: float
    ) -> CommandExit:
        root = self._sandbox.root
        with ExitStack() as opened:
            configs = view.git.configs if view.git else ()
            data = {path: opened.enter_context(_holding(os.fsencode(plain_config(path)))) for path in configs}
            process = SandboxedProcess(output)
            calls = opened.enter_context(_holding(filter_for() or b""))
            options = bubblewrap.options(root, view.files, view.git, process.status, calls, data)
            given = opened.enter_context(_holding(b"\0".join(map(os.fsencode, options))))
            command = [bubblewrap.program() or bubblewrap.PROGRAM, "--args", str(given), "--", *words]
            return await process.run(command, seconds, (given, calls, *data.values()))

    async def _in_seatbelt(self, view: _View, words: Sequence[str], output: KeptOutput, seconds: float) -> CommandExit:
        root = self._sandbox.root
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as own:
            real = await in_thread(Path(own).resolve)
            environment = bubblewrap.VARIABLES | {"HOME": str(real), "TMPDIR": str(real)}
            command = seatbelt.command(root, view.files, view.git, real, words)
            process = SandboxedProcess(output, has_status=False)
            return await process.run(command, seconds, (), environment, root)


def _limits_sandbox(release: str) -> bool:
    """Return whether the kernel, by its version, applies a process limit to each sandbox separately."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if sys.platform != "linux" or numbers is None:
        return False
    return (int(numbers[1]), int(numbers[2])) >= _COUNTS_PER_SANDBOX


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
