"""Start programs by forking a Python that has imported them: its imports take ten times as long as most tests."""

import atexit
import ctypes
import functools
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests import program_forks
from tests.program_forks import BYTECODE, ENCODING, OWNER, UNNAMED

_PARENT = Path(__file__).with_name("program_forks.py")
SCRIPT = _PARENT.with_name("wire") / "mcp_servers" / "good.py"
"""The one script that is forked too."""
_RUN = f"""
import sys
sys.path.insert(0, {str(_PARENT.parents[1])!r})
from tests.program_forks import end, fork_programs
del sys.path[0]
try:
    exec(fork_programs(int(sys.argv[1])), {{"__name__": "__main__"}})
except SystemExit as left:
    end(left.code)
    raise
end(0)
"""
_LONG = "." * 4_000
"""An argument of the parent, which leaves its forks the space for command lines of their own."""
PATIENCE = 600.0
"""Timeout for the parent of the programs [s]."""
_WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""How execnet starts a worker of pytest-xdist."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of <linux/prctl.h>."""
_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TYPER_")
"""Beginnings of the names of variables that Python or a library reads once, when it starts."""
_ONLY_OWN = ("DEFER_PYDANTIC", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TERMINAL_WIDTH", "_TYPER_STANDARD")
"""The same of variables that an imported library has read; a program that gets one has its own interpreter."""
_USUAL_ENCODINGS = {None, "utf-8"}


class ForkedProgram(subprocess.Popen):
    """`python -W error -c CODE ...` or `python SCRIPT ...` as a child of this process; on Linux it is forked.

    Every start that a fork cannot reproduce (other flags, further descriptors, other users, variables that are read
    when Python starts) gets its own interpreter. So do tests of the start itself, which use `Popen`.
    """

    def __init__(self, args: Any, *given: Any, closed: tuple[int, ...] = (), **options: Any) -> None:
        """Start the program.

        closed: standard streams that are closed, as `>&-` does in a shell.
        """
        self._closed = closed
        super().__init__(args, *given, **options)

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *given: Any) -> None:
        # The order of subprocess.Popen._execute_child, the same since Python 3.11.
        (close_fds, pass_fds, cwd, env, _, _, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
         restore_signals, gid, gids, uid, umask, new_session, group) = given  # fmt: skip
        own = [preexec_fn, pass_fds, shell, gids, executable]
        usual = close_fds and restore_signals and (gid, uid, umask, group) == (None, None, -1, -1)
        variables = dict(os.environ if env is None else env)
        flags = _flags(args, variables)
        if any(own) or not usual or flags is None or (cwd and not os.path.isdir(cwd)):  # noqa: PTH112 - may be bytes
            if self._closed:
                redirected = "".join(f" {number}>&-" for number in self._closed)
                args = ["sh", "-c", f'exec "$@"{redirected}', "sh", *args]
            super()._execute_child(args, executable, preexec_fn, *given)
            return
        start = {
            "command": [os.fspath(one) for one in args],
            "flags": flags,
            "closed": self._closed,
            "cwd": os.fspath(cwd) if cwd else os.getcwd(),  # noqa: PTH109 - a text is needed
            "env": variables,
            "umask": _umask(),
            "new_session": new_session,
        }
        streams = [mine if mine != -1 else usual for usual, mine in enumerate((p2cread, c2pwrite, errwrite))]
        with _starting:
            self.pid = _parent(_key(variables), dict(os.environ)).start(start, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def run_forked(
    command: list[str], *, timeout: float = PATIENCE, capture_output: bool = False, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run `python -W error -c CODE ...` as `subprocess.run` does, in a `ForkedProgram`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ForkedProgram(command, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def fork_children_of_event_loops() -> None:
    """Fork the programs that event loops of this process start, such as MCP servers."""
    if sys.platform == "linux":
        from asyncio import unix_events

        unix_events.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": ForkedProgram})


def fork_workers(env: dict[str, str]) -> None:
    """Let pytest-xdist fork its workers, with this environment; each of them imports for many seconds otherwise."""
    from execnet.gateway_base import MainThreadOnlyExecModel

    _parent(_key(env), env | {OWNER: UNNAMED})
    start = functools.partial(ForkedProgram, env=env)
    MainThreadOnlyExecModel.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": start})


def _flags(args: Any, env: dict[str, str]) -> tuple[str, ...] | None:
    """Return the options of Python in a command that can be forked, else None."""
    if (
        sys.platform != "linux"
        or not isinstance(args, list | tuple)
        or len(set(os.getresuid())) > 1
        or env.get(ENCODING) not in _USUAL_ENCODINGS
        or any(name.startswith(_ONLY_OWN) for name in env)
    ):
        return None
    if [*args[:2]] == [sys.executable, str(SCRIPT)]:
        return ()
    if [*args] == [sys.executable, "-u", "-c", _WORKER]:
        return ("-u",)
    if [*args[:4]] == [sys.executable, "-W", "error", "-c"] and _key(env) == _key(dict(os.environ)):
        return ("-W", "error")
    return None


def _key(env: dict[str, str]) -> frozenset[tuple[str, str]]:
    """Return the variables that decide how Python starts."""
    # Without a language it takes the same one (PEP 538).
    given = {"LANG": "C.UTF-8"} | env
    set_later = (ENCODING, BYTECODE)
    return frozenset((name, given[name]) for name in given if name.startswith(_AT_START) and name not in set_later)


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


class _Parent:
    """The running parent of programs."""

    def __init__(self, line: socket.socket, process: subprocess.Popen | None = None) -> None:
        self._line = line
        self._line.settimeout(PATIENCE)
        self._process = process
        atexit.register(self._end)

    def _end(self) -> None:
        """Let the process end, which it does when no process can send it a start any more."""
        self._line.close()
        if self._process:
            self._process.wait(PATIENCE)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def start(self, start: dict[str, Any], streams: list[int]) -> int:
        """Start a program as a child of this process; return its id."""
        prctl = ctypes.CDLL(None).prctl
        prctl(_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._line, [json.dumps(start).encode()], streams)
            number = int(self._line.recv(100))
            self._line.recv(100)
        finally:
            prctl(_SUBREAPER, 0, 0, 0, 0)
        return number


_parents: dict[Any, _Parent] = {}
if program_forks.inherited:
    _parents[_key(dict(os.environ))] = _Parent(program_forks.inherited)
_starting = threading.Lock()
"""Held while a program is started: each start is a dialogue with the parent."""


def _parent(variables: frozenset[tuple[str, str]], env: dict[str, str]) -> _Parent:
    """Return the running parent for these variables; if there is none, start one with them and the rest of `env`."""
    found = _parents.get(variables)
    if found is None or found.has_ended:
        line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        others = {name: env[name] for name in env if name == BYTECODE or not name.startswith(_AT_START)}
        given = others | dict(variables)
        given.pop("PYTEST_CURRENT_TEST", None)
        command = [sys.executable, "-W", "error", "-c", _RUN, str(theirs.fileno()), _LONG]
        options = {"pass_fds": [theirs.fileno()], "env": given, "stdin": subprocess.DEVNULL, "cwd": "/"}
        found = _parents[variables] = _Parent(line, subprocess.Popen(command, **options))
        theirs.close()
    return found
