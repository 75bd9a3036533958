"""The parent of forked programs: a Python that has imported them, and forks itself for each start.

It runs as `python -c`, see tests/forked_program.py. Each message is a start in JSON, with three descriptors for the
standard streams.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import socket
import sys
import threading
import time
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

ENCODING = "PYTHONIOENCODING"
"""The variable for the encoding of the standard streams; a fork takes `utf-8` or none."""


def fork_programs(kind: str, descriptor: int) -> CodeType:
    """Fork for each message until the other side closes its end; return the code that this process is to run.

    kind: `programs` or `servers`, which decides the modules that are imported before.
    """
    for name in {"programs": [*REQUESTS, *PROGRAMS], "servers": SERVERS}[kind]:
        importlib.import_module(name)
    # A collection over all inherited objects would copy their memory.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as line:
        while True:
            text, descriptors, *_ = socket.recv_fds(line, 1_000_000, 3)
            if not text:
                return compile("", "<string>", "exec")
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
    return _become(json.loads(text), descriptors)


def _become(start: dict, descriptors: list[int]) -> CodeType:
    """Take over streams, folder, environment and command line of a start; return its code."""
    for target, source in enumerate(descriptors):
        os.dup2(source, target)
        os.close(source)
    if start["new_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(start["env"])
    os.chdir(start["cwd"])
    os.umask(start["umask"])
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
    _show(start["command"])
    what, *arguments = start["command"][1 + start["flags"] :]
    if what == "-c":
        code, *arguments = arguments
        file = "<string>"
    else:
        code, file = Path(what).read_text(encoding="utf-8"), what
        sys.path[0] = str(Path(what).parent)
    sys.argv = [what, *arguments]
    return compile(code, file, "exec")


def _show(command: list[str]) -> None:
    """Replace the command line in /proc, where tests look for programs; a longer one is cut off."""
    # The numbers 48 and 49 of proc(5), of which the first two are cut off here.
    begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    line = "".join(f"{word}\0" for word in command).encode(errors="surrogateescape")[: end - begin - 1]
    ctypes.memmove(begin, line.ljust(end - begin, b"\0"), end - begin)


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
