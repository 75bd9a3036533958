"""The index of `specialists report --index`: one page over the stored runs, with links to their reports."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.cli.console import fail, print_json, say
from run_specialist.cli.private_file import write_private
from run_specialist.cli.related_runs import with_related
from run_specialist.cli.report_file import report_name, report_path
from run_specialist.errors import RunSpecialistError

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import ListedRun

STDOUT = Path("-")
_OURS = b'<meta name="generator" content="specialists report --index">'
_HEAD = 64 * 1024
"""Size of the beginning of a file that is searched for the mark of an index [bytes]."""
SAFE_ID = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
"""Pattern of ids that can be used in a file name."""


def flags_problem(
    run: str | None, out: Path | None, *, index: bool, with_reports: bool, open_: bool, json_: bool
) -> str:
    """Return why the flags of `report` cannot be combined; empty if they can."""
    if index and run is not None:
        return "--index lists all runs, so it takes no RUN"
    if not index and run is None:
        return "RUN is missing; use an id, `last`, or --index for all runs"
    prints = "--json" if json_ else "--out -" if out == STDOUT else ""
    needs = "--open" if open_ else "--with-reports" if with_reports else ""
    return f"{needs} needs a file; it cannot be combined with {prints}" if prints and needs else ""


def write_index(
    opened: "Store", project: str | None, out: Path | None, *, with_reports: bool, overwrite: bool, json_: bool
) -> Path | None:
    """Write or print the index of runs; return the path of the file, or None if the index was printed.

    project: Project of the runs; None = all projects.
    out: Path of the file; None = the default name, `-` = standard output.
    with_reports: Also write the reports that do not exist in the folder of the index.
    overwrite: Replace files; an older index is always replaced.
    Raises OSError.
    """
    from run_specialist.store.selection import Selection  # noqa: PLC0415 - fast `--help`

    runs = sorted(opened.trees(Selection(project=project), None), key=lambda run: run.started_at, reverse=True)
    if json_:
        print_json(_data(opened, runs, None, project))
        return None
    from run_specialist.views.run_index import run_index  # noqa: PLC0415 - fast `--help`

    if out == STDOUT:
        print_page(run_index(_data(opened, runs, None, project)))
        return None
    path = out or report_path(opened.url, "index")
    overwrite_index = overwrite or _is_index(path)
    if path.exists() and not overwrite_index:
        fail(f"{path} already exists; use --force to overwrite it")
    if with_reports:
        from run_specialist.views.run_index import MOST_RUNS  # noqa: PLC0415 - fast `--help`

        write_missing(opened, [run.run_id for run in runs[:MOST_RUNS]], path.parent, overwrite=overwrite)
    page = run_index(_data(opened, runs, path.parent, project)).encode("utf-8", "replace")
    try:
        write_private(path, page, overwrite=overwrite_index)
    except FileExistsError:
        fail(f"{path} already exists; use --force to overwrite it")
    return path


def print_page(page: str) -> None:
    """Print a page as UTF-8, if standard output is open."""
    if sys.stdout is not None:
        sys.stdout.buffer.write(page.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _data(opened: "Store", runs: Sequence["ListedRun"], folder: Path | None, project: str | None) -> Mapping[str, Any]:
    """Return the data of the index.

    folder: Folder of the index, where reports are looked for; None = nothing is linked.
    """
    from run_specialist.store.location import shown  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.run_index import MOST_RUNS, index_data  # noqa: PLC0415 - fast `--help`

    listed = {run.run_id for run in runs[:MOST_RUNS]}
    outcomes = {
        past.run_id: past.outcome
        for specialist in sorted({run.specialist for run in runs[:MOST_RUNS]})
        for past in opened.past(specialist)
        if past.run_id in listed
    }
    reports = {} if folder is None else reports_in(folder, listed)
    return index_data(runs, outcomes, reports, shown(opened.url), project)


def reports_in(folder: Path, run_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of the reports in a folder, by run id."""
    files = {one: folder / report_name(one) for one in run_ids if SAFE_ID.fullmatch(one)}
    return {run_id: path.name for run_id, path in files.items() if path.is_file()}


def write_missing(opened: "Store", run_ids: Iterable[str], folder: Path, *, overwrite: bool) -> None:
    """Write the reports that do not exist in a folder, skipping runs that cannot be read.

    overwrite: Write all reports, also those that exist.
    """
    from run_specialist.views.report import report  # noqa: PLC0415 - fast `--help`

    paths = {run_id: folder / report_name(run_id) for run_id in run_ids if SAFE_ID.fullmatch(run_id)}
    missing = {run_id: path for run_id, path in paths.items() if overwrite or not path.exists()}
    say(f"writing {len(missing):,} report{'' if len(missing) == 1 else 's'}", dim=True)
    for run_id, path in missing.items():
        try:
            page = report(*with_related(opened, run_id)).encode("utf-8", "replace")
            write_private(path, page, overwrite=overwrite)
        except RunSpecialistError as error:
            say(f"no report of {run_id}: {error}")
        except FileExistsError:
            say(f"no report of {run_id}: {path} already exists")


def _is_index(path: Path) -> bool:
    """Return whether a regular file, and not a link to one, is an index that this command wrote."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return _OURS in file.read(_HEAD)
