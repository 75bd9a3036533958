"""The commands as a program that reports and delays each tool call.

Arguments: the name of a command and its arguments. TOLD_BY: the descriptor for reports, one JSON line when a call
begins and one when it has returned. SLOW: the longest delay before a call begins its work [ms].

With the single argument `fork-server` it imports everything and then forks such programs; see `fork_server.py`.
"""

import asyncio
import gc
import importlib
import json
import os
import random
import socket
import sys
from collections.abc import Mapping
from typing import Any

from run_specialist.tools.base import Context, Output, Tool
from tests.program_forks import REQUESTS, end

call_within = Tool.call_within
LATE = (*REQUESTS, "tests.crash.boundary")
"""Modules that programs import on demand, imported before forking; only connections would not survive a fork."""


def write_line(what: str, tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Write one line to the pipe, which keeps it even if the program is killed."""
    key = f"{tool.name} {json.dumps(arguments, sort_keys=True, default=str)}"
    os.write(int(os.environ["TOLD_BY"]), json.dumps([what, key]).encode() + b"\n")


async def report_call(
    self: Tool, seconds: float, arguments: Mapping[str, Any], context: Context | None = None
) -> Output | None:
    """Run a call, and report when it begins and when it has returned."""
    write_line("begun", self, arguments)
    await asyncio.sleep(random.uniform(0, float(os.environ["SLOW"]) / 1_000))  # noqa: S311 - no secret
    output = await call_within(self, seconds, arguments, context)
    write_line("returned", self, arguments)
    return output


def main(*command: str) -> None:
    """Run a command."""
    if command[0] == "boundary":
        from tests.crash.boundary import go

        go(*command[1:])
        return
    Tool.call_within = report_call  # type: ignore[method-assign] # replaced on purpose
    sys.argv = [*command]
    if command[0] == "specialists":
        from run_specialist.cli.manage import main as run
    else:
        from run_specialist.cli.ask import main as run
    run()


def nurse(descriptor: int) -> None:
    """Fork a program for each message with arguments and descriptors; reply with its id, then its exit code."""
    for name in LATE:
        importlib.import_module(name)
    # A garbage collection over all inherited objects would copy their memory, and the exit would take seconds.
    gc.freeze()
    with socket.socket(fileno=descriptor) as line:
        while _fork(line):
            pass


def _fork(line: socket.socket) -> bool:
    text, (*descriptors,), *_ = socket.recv_fds(line, 65_536, 3)
    if not text:
        return False
    child = os.fork()
    if child:
        for each in descriptors:
            os.close(each)
        line.send(str(child).encode())
        line.recv(1)
        line.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        return True
    line.detach()
    given = json.loads(text)
    for target, source in enumerate(descriptors[:2], 1):
        os.dup2(source, target)
    os.environ.update(given["env"] | {"TOLD_BY": str(descriptors[2])})
    os.chdir(given["where"])
    try:
        main(*given["command"])
    except SystemExit as left:
        end(left.code)
        raise
    end(0)
    return False


if __name__ == "__main__":
    if sys.argv[1] == "fork-server":
        nurse(int(sys.argv[2]))
    else:
        main(*sys.argv[1:])
