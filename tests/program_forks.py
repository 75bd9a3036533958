"""The parent of forked programs: a Python that has imported them, and forks itself for each start.

It runs as `python -c`, see tests/forked_program.py. Each message is a start in JSON, with three descriptors for the
standard streams. A worker of pytest-xdist is such a program too; it gets a parent for the programs of its tests.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType

REQUESTS = """
    anthropic genai_prices.data genai_prices.data_units genai_prices.decompose genai_prices.validation h11
    httpcore2 queue run_specialist.api.runner run_specialist.cli.ask run_specialist.cli.manage
    run_specialist.api.config_files run_specialist.providers.anthropic run_specialist.providers.transport
    run_specialist.store.sqlite run_specialist.store.ledger run_specialist.store.reader
    run_specialist.store.postgresql run_specialist.store.writer sqlalchemy.dialects.postgresql.psycopg
    sqlalchemy.dialects.sqlite sqlite3 truststore typer._adapters
""".split()  # noqa: SIM905
"""Modules that commands import on demand to send requests and to store runs."""
PROGRAMS = """
    aiohttp jinja2.compiler markdown_it.tree mcp.server platformdirs rich._emoji_codes rich.bar rich.live
    rich.markdown rich.spinner rich.syntax run_specialist.cli.map_run run_specialist.cli.live
    run_specialist.cli.answer run_specialist.mcp_server.http run_specialist.mcp_server.server
    run_specialist.providers.offline run_specialist.store.batch_reader run_specialist.views.page
    run_specialist.views.tune
""".split()  # noqa: SIM905
SERVERS = ("mcp.server.mcpserver", "mcp.server.stdio", "mcp.types", "uvicorn")
TESTS = """
    alembic.command hypothesis jsonschema mcp.client.stdio mcp.client.streamable_http openai opentelemetry.sdk.trace
    pgqueuer psycopg pydantic_evals.evaluators pytest typer.testing
""".split()  # noqa: SIM905
"""Further modules that tests import."""
PLUGINS = ("_hypothesis", "anyio", "hypothesis", "platformdirs")
"""Beginnings of the names of modules that belong to a plugin of pytest."""

ENCODING = "PYTHONIOENCODING"
"""The variable for the encoding of the standard streams; a fork takes `utf-8` or none."""
BYTECODE = "PYTHONPYCACHEPREFIX"
"""The variable for the folder of compiled modules; Python looks it up for each import."""
OWNER = "RUN_SPECIALIST_TEST_WORKER"
"""Variable with the name of the worker, inherited by all processes it starts."""
UNNAMED = "." * 40
"""Its value in a parent of workers; a worker writes its own name over it."""
inherited: socket.socket | None = None
"""The line of a worker to the parent of its programs."""


def fork_programs(descriptor: int) -> CodeType:
    """Fork for each message until the other side closes its end; return the code that this process is to run."""
    global inherited
    for name in (*REQUESTS, *PROGRAMS, *SERVERS, *TESTS):
        with suppress(Exception):  # the program that needs it reports the failure
            importlib.import_module(name)
    # A collection over all inherited objects would copy their memory.
    gc.collect()
    gc.freeze()
    while True:
        start, descriptors = _next_start(descriptor)
        if not start:
            return compile("", "<string>", "exec")
        if start["flags"] != ["-u"]:
            break
        inherited, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _name_worker()
        if os.fork():
            theirs.close()
            for name, module in list(sys.modules.items()):
                # Otherwise pytest warns that it cannot rewrite the assertions of this module.
                if name.startswith(PLUGINS) and "." not in name:
                    module.__doc__ = f"{module.__doc__} PYTEST_DONT_REWRITE"
            break
        inherited.close()
        for each in descriptors:
            os.close(each)
        descriptor = theirs.detach()
    return _become(start, descriptors)


def _next_start(descriptor: int) -> tuple[dict, list[int]]:
    """Wait for a start and fork; return it in the fork, and an empty one at the end."""
    with socket.socket(fileno=descriptor) as line:
        while True:
            text, descriptors, *_ = socket.recv_fds(line, 1_000_000, 3)
            if not text:
                return {}, []
            between = os.fork()
            if not between:
                break
            for each in descriptors:
                os.close(each)
            os.waitpid(between, 0)
            line.send(b"adopted")
        forked = os.getpid()
        # The process between both ends at once, so that the program becomes a child of the process that asked for it.
        if program := os.fork():
            line.send(str(program).encode())
            os._exit(0)
    # Until then its parent is the other one.
    while os.getppid() == forked:
        time.sleep(0.001)
    return json.loads(text), descriptors


def _become(start: dict, descriptors: list[int]) -> CodeType:
    """Take over streams, folder, environment and command line of a start; return its code."""
    for target, source in enumerate(descriptors):
        os.dup2(source, target)
        os.close(source)
    if start["new_session"]:
        os.setsid()
    if start["flags"] != ["-u"]:
        notice_signals(signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(start["env"])
    os.chdir(start["cwd"])
    os.umask(start["umask"])
    sys.pycache_prefix = start["env"].get(BYTECODE)
    time.tzset()
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        old = getattr(sys, name)
        if number in start["closed"]:
            # Python has no object for a stream that is closed when it starts.
            setattr(sys, name, None)
            setattr(sys, f"__{name}__", None)
            os.close(number)
            continue
        is_terminal = os.isatty(old.fileno())
        errors = "strict" if name != "stderr" and ENCODING in start["env"] else old.errors
        new = open(  # noqa: SIM115 - a stream of this process, never closed
            old.fileno(), mode, encoding=old.encoding, errors=errors, closefd=False,
            buffering=1 if name != "stdin" and (is_terminal or name == "stderr") else -1,
        )  # fmt: skip
        new.mode = mode
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    if "error" not in start["flags"]:
        sys.warnoptions.clear()
        warnings.filters.remove(("error", None, Warning, None, 0))
    _show(start["command"])
    what, *arguments = start["command"][1 + len(start["flags"]) :]
    if what == "-c":
        code, *arguments = arguments
        file = "<string>"
    else:
        code, file = Path(what).read_text(encoding="utf-8"), what
        sys.path[0] = str(Path(what).parent)
    sys.argv = [what, *arguments]
    return compile(code, file, "exec")


def notice_signals(action: Callable[..., object] | int) -> None:
    """Set the action for signals that the shell or service has ignored; Ctrl-C gets Python's own handler."""
    for number in signal.valid_signals() - {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else action)


def _show(command: list[str]) -> None:
    """Replace the command line in /proc, where tests look for programs; a longer one is cut off."""
    begin, end, _ = _at_start()
    line = "".join(f"{word}\0" for word in command).encode(errors="surrogateescape")[: end - begin - 1]
    ctypes.memmove(begin, line.ljust(end - begin, b"\0"), end - begin)


def _at_start() -> list[int]:
    """Return where the kernel finds the command line of this process, its end, and the environment."""
    # The numbers 48 to 50 of proc(5), of which the first two are cut off here.
    return [*map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:48])]


def _name_worker() -> None:
    """Show in /proc, for this process and its forks, that they belong to this worker."""
    unnamed = Path("/proc/self/environ").read_bytes().find(UNNAMED.encode())
    if unnamed >= 0:
        ctypes.memmove(_at_start()[2] + unnamed, owner(os.getppid(), os.getpid()).encode(), len(UNNAMED))


def owner(parent: int, worker: int) -> str:
    """Return the name of a worker of pytest-xdist; both are process ids."""
    return f"{parent}-{worker}".rjust(len(UNNAMED), "-")


def end(code: object) -> None:
    """End the process as Python does, without freeing the memory that it shares with its parent.

    That would copy all of it, and take ten times as long as the program. Returns where Python has more to do: if the
    code is a message, or an output cannot be written.
    """
    if not (code is None or isinstance(code, int)):
        return
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()  # reports what the program has not closed
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (AttributeError, OSError, ValueError):
        return
    os._exit((code or 0) & 0xFF)
