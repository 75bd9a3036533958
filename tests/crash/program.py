"""The commands as a program that reports and delays each tool call, and programs that kill themselves.

Arguments: the name of a command and its arguments, or `boundary` or `edit` with those of the functions. SLOW in the
environment: the longest delay before a call begins its work [ms].
"""

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.record.messages import Reply
from run_specialist.safety import safe_files
from run_specialist.tools.base import Context, Output, Tool
from tests.scripted_provider import ScriptedProvider, calls

call_within = Tool.call_within
REPORT = b"\x1e"
"""Start of a line on standard error that reports that a call begins or has returned."""


def command_line(*words: str) -> list[str]:
    """Return the command line of this program with these arguments."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
    code += "from tests.crash.program import main; main(*sys.argv[1:])"
    return [sys.executable, "-W", "error", "-c", code, *words]


def write_line(what: str, tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Write one line to the pipe, which keeps it even if the program is killed."""
    key = f"{tool.name} {json.dumps(arguments, sort_keys=True, default=str)}"
    os.write(2, REPORT + json.dumps([what, key]).encode() + b"\n")


async def report_call(
    self: Tool, seconds: float, arguments: Mapping[str, Any], context: Context | None = None
) -> Output | None:
    """Run a call, and report when it begins and when it has returned."""
    write_line("begun", self, arguments)
    await asyncio.sleep(random.uniform(0, float(os.environ["SLOW"]) / 1_000))  # noqa: S311 - no secret
    output = await call_within(self, seconds, arguments, context)
    write_line("returned", self, arguments)
    return output


EDIT = ("edit", {"path": "docs/a.md", "old": "two", "new": "2"})


def runner_of(root: Path, *script: Reply) -> Runner:
    """Return a runner with a script, and a store beside the root."""
    return Runner(root=root, provider=ScriptedProvider(script), store=f"sqlite:///{root}.db", trust=True)


def edit_until_killed(root: str, moment: str) -> None:
    """Read a file and edit it; kill this process before or after the file is replaced."""

    def replacing(*names: Any, **where: Any) -> None:
        if moment == "after" or not where:
            os.rename(*names, **where)  # noqa: PTH104 - it may name descriptors of folders
        if where:
            os.kill(os.getpid(), signal.SIGKILL)

    async def go() -> None:
        async with runner_of(Path(root), calls(("read", {"path": "docs/a.md"})), calls(EDIT, first_id=2)) as runner:
            await runner.run("fixer", "Fix it.")

    safe_files.os.replace = replacing
    asyncio.run(go())


def main(*command: str) -> None:
    """Run a command."""
    if command[0] == "boundary":
        from tests.crash.boundary import go

        go(*command[1:])
        return
    if command[0] == "edit":
        edit_until_killed(*command[1:])
        return
    Tool.call_within = report_call  # type: ignore[method-assign] # replaced on purpose
    sys.argv = [*command]
    if command[0] == "specialists":
        from run_specialist.cli.manage import main as run
    else:
        from run_specialist.cli.ask import main as run
    run()
