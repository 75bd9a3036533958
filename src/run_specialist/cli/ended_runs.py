"""Load the past runs that `specialists tune` evaluates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from run_specialist.cli.console import fail, printable
from run_specialist.cli.runs_table import short_path
from run_specialist.cli.show_runs import counted

if TYPE_CHECKING:
    from run_specialist.store.stored import PastRun


def ended_runs(name: str, given: str | None, project: str | None) -> "Sequence[PastRun]":
    """Return the runs that have ended, the newest first.

    given: the store; None = the default one.
    project: only its runs; None = those of all projects.
    """
    from run_specialist.store.location import NONE, place, shown  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.selection import Selection  # noqa: PLC0415 - fast `--help`

    where = place(given)
    if where.url == NONE:
        fail("runs are not stored, so there is nothing to learn from; name a store with --store")
    with Store(where.url) as store:
        runs = store.past(name, project)
        if not runs:
            known = sorted({printable(run.specialist) for run in store.trees(Selection(project=project))} - {name})
            others = f"; it has runs of {', '.join(known)}" if known else ""
            elsewhere = len(store.past(name)) if project else 0
            more = f"; other projects have {counted(elsewhere)} of {name}: use --all-projects" if elsewhere else ""
            where_in = f" in {short_path(project)}" if project else ""
            fail(f"{shown(where.url)} has no ended run of {name}{where_in}{others}{more}")
        return runs
