"""The command `specialists`, called in this process and as a separate process."""

import json
import subprocess
import sys
from typing import Any

from typer.testing import CliRunner, Result

from run_specialist.cli.manage import app
from tests.forked_program import run_forked

GOOD = "---\nname: finder\ndescription: Finds notes\ntools: Read, Grep\ntool_calls_limit: 12\n---\nYou find notes.\n"
BAD = "---\nname: bad\ndescription: d\ntool_calls_limit: twelve\ncost_limit: $5\n---\nBody\n"


def call(*arguments: str, **options: Any) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, arguments, catch_exceptions=False, **options)


def rows(run: str = "last") -> list[dict[str, Any]]:
    """Return the rows of a transcript."""
    return json.loads(call("transcript", run, "--json").stdout)["messages"]


MAIN = "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()"


def program(*arguments: str, code: str = MAIN, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a separate process."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60} | options
    return run_forked(command, **given)
