"""The commands for stored runs, called in this process and on a terminal, and the runs that they show."""

import json
from contextlib import closing
from pathlib import Path

from run_specialist.store.location import place
from run_specialist.store.writer import Writer
from tests.cli.specialists_command import call
from tests.screen import run_on_terminal
from tests.unit.store import finished_runs

NOON = 1_795_348_800.0
"""2026-11-22, 12:00 UTC."""
DAY = 86_400.0


def keep(**runs):
    """Store runs, and end the process that wrote them."""
    with closing(Writer(place(None))) as writer:
        finished_runs.write(writer, **runs)


def here():
    """Return what a run in the current folder stores about its project."""
    return {"system": "Look.", "project": str(Path.cwd().resolve()), "root": "/gone"}


def run_of(run_id, at=NOON, project=None, **changed):
    """Return the records of a finished run, which began at noon by default, in the project of the current folder."""
    frozen = here() | ({} if project is None else {"project": project})
    return finished_runs.run_of(run_id, at, **{"frozen": frozen} | changed)


def listed(*arguments):
    """Return the ids that `runs --json` lists."""
    return [run["run_id"] for run in json.loads(call("runs", *arguments, "--json").stdout)["runs"]]


def on_terminal(*arguments, **options):
    """Run the command as a program on a terminal of 120 columns; return its output and its exit code."""
    written, _, code = run_on_terminal(["specialists", *arguments], **{"columns": 120} | options)
    return written.replace("\r\n", "\n"), code
