"""The command `specialists report`: write the page of a run or a batch, or an index of runs."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.budget import counted
from run_specialist.cli.console import STDOUT, fail, guarded, print_json, print_line, say, write_private
from run_specialist.cli.flags import Overwrite, StoreUrl
from run_specialist.cli.runs import AllProjects, ReportedRun, RunsRoot, open_store, project_filter
from run_specialist.errors import RunSpecialistError
from run_specialist.store.location import default_folder, file_of, shown

if TYPE_CHECKING:
    from run_specialist.store.batch_reader import StoredBatches
    from run_specialist.store.batches import StoredBatch
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import StoredRun
    from run_specialist.views.report import RelatedRuns


_OUT = "Output file; `-` for standard output.  [default: report-RUN.html beside the store]"
OutFile = Annotated[Path | None, typer.Option("--out", "--output", metavar="FILE", help=_OUT)]
Index = Annotated[bool, typer.Option("--index", help="A page that lists all runs.  [default file: report-index.html]")]
WithReports = Annotated[
    bool, typer.Option("--with-reports", help="With --index or a batch: also write the reports that are missing.")
]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
PageJson = Annotated[bool, typer.Option("--json", help="Print the data of the page as one JSON object.")]


@dataclass(frozen=True)
class _Page:
    """A page that can be printed or written."""

    # Part of the name of its file.
    name: str
    # Returns its data, with links to the reports in a folder, if one is given.
    data: Callable[[Path | None], Mapping[str, Any]]
    render: Callable[[Mapping[str, Any]], str]
    # Name of the folder with the reports of the listed runs, from the folder of the page; None if it lists none.
    folder: str | None = None
    run_ids: Callable[[], Iterable[str]] = tuple


def report(
    run: ReportedRun = None,
    out: OutFile = None,
    index: Index = False,
    with_reports: WithReports = False,
    open_: OpenPage = False,
    force: Overwrite = False,
    all_projects: AllProjects = False,
    root: RunsRoot = None,
    store: StoreUrl = None,
    json_: PageJson = False,
) -> None:
    """Write an HTML page of a run or a batch, or an index of runs."""
    if index and run is not None:
        fail("--index lists all runs, so it takes no RUN")
    if not index and run is None:
        fail("RUN is missing; use an id, `last`, or --index for all runs")
    prints = "--json" if json_ else "--out -" if out == STDOUT else ""
    needs = "--open" if open_ else "--with-reports" if with_reports else ""
    if prints and needs:
        fail(f"{needs} needs a file; it cannot be combined with {prints}")
    with guarded(), open_store(store) as opened:
        from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`

        project = project_filter(root, all_projects=all_projects)
        with StoredBatches(opened.url) as batches:
            if run is None:
                page = _index(opened, project)
            elif batch := batches.meant(run):
                page = _batch(batches, batch)
            else:
                from run_specialist.views import report as view  # noqa: PLC0415 - fast `--help`

                related = with_related(opened, opened.find(run, project).run_id)
                page = _Page(related[0].run_id, lambda _: view.data(*related), view.render)
            if json_:
                print_json(page.data(None))
                return
            if out == STDOUT:
                if sys.stdout is not None:
                    sys.stdout.buffer.write(page.render(page.data(None)).encode("utf-8", "replace"))
                    sys.stdout.buffer.flush()
                return
            path = _write(opened, page, out, with_reports=with_reports, overwrite=force)
        print_line(str(path))
        if open_:
            open_page(path)


def _write(opened: "Store", page: _Page, out: Path | None, *, with_reports: bool, overwrite: bool) -> Path:
    """Write a page, readable by its owner only, and the missing reports on request; return its path.

    A page beside the store may be replaced; a link there was not made by this command.
    Raises OSError for a file that the user named.
    """
    if with_reports and page.folder is None:
        fail("--with-reports needs --index or a batch")
    if not _SAFE_ID.fullmatch(page.name) and (out is None or with_reports):
        fail(f"{page.name!r} cannot be part of a file name; name the file with --out")
    path = out or report_path(opened.url, page.name)
    replace = overwrite or (out is None and not path.is_symlink())
    if not replace and os.path.lexists(path):
        fail(f"{path} already exists; use --force to overwrite it")
    folder = None if page.folder is None else path.parent / page.folder
    if folder and with_reports:
        write_missing(opened, page.run_ids(), folder, overwrite=overwrite)
    try:
        write_private(path, page.render(page.data(folder)).encode("utf-8", "replace"), overwrite=replace)
    except OSError as error:
        if out is not None:
            raise
        fail(f"{path} cannot be written: {error.strerror}; name another file with --out")
    return path


def _batch(batches: "StoredBatches", batch: "StoredBatch") -> _Page:
    """Return the page of a batch, or of an eval whose result is stored."""
    from run_specialist.views.batch_page import batch_data, batch_page, failures  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.eval_page import eval_page  # noqa: PLC0415 - fast `--help`

    result = batch.frozen.get("eval", {}).get("result")

    def run_ids() -> list[str]:
        """Return the ids of its runs, and of the baseline that an eval compares with."""
        begun = (item.run_id for item in batches.items(batch.batch_id) if item.started_at is not None)
        compared = (one["run_id"] for one in (result or {}).get("runs", ()) if one["run_id"])
        return [*dict.fromkeys((*begun, *compared))]

    def data(folder: Path | None) -> Mapping[str, Any]:
        links = reports_in(folder, run_ids(), f"{folder.name}/") if folder else {}
        reasons = failures(batches.items(batch.batch_id, failures=True))
        found = batch_data(batch, batches.tally(batch.batch_id), reasons, batches.items(batch.batch_id), links)
        return found if result is None else {**found, "eval": result, "reports": links}

    def render(data: Mapping[str, Any]) -> str:
        return batch_page(data) if result is None else eval_page(result, data["reports"])

    return _Page(batch.batch_id, data, render, f"report-{batch.batch_id}", run_ids)


def _index(opened: "Store", project: str | None) -> _Page:
    """Return the page that lists the runs of a project, or of all projects if it is None."""
    from run_specialist.store.selection import Selection  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.run_index import MOST_RUNS, index_data, run_index  # noqa: PLC0415 - fast `--help`

    runs = sorted(opened.trees(Selection(project=project), None), key=lambda run: run.started_at, reverse=True)
    listed = [run.run_id for run in runs[:MOST_RUNS]]

    def data(folder: Path | None) -> Mapping[str, Any]:
        specialists = sorted({run.specialist for run in runs[:MOST_RUNS]})
        outcomes = {past.run_id: past.outcome for specialist in specialists for past in opened.past(specialist)}
        reports = reports_in(folder, listed) if folder else {}
        return index_data(runs, outcomes, reports, shown(opened.url), project)

    return _Page("index", data, run_index, "", lambda: listed)


def report_name(run_id: str) -> str:
    """Return the file name of a run's report."""
    return f"report-{run_id}.html"


def report_path(url: str, run_id: str) -> Path:
    """Return the path of a page beside the store; for a server, in the folder of the default store.

    The folder is created if it does not exist, accessible to its owner only.
    """
    file = file_of(url)
    folder = default_folder() if file is None else file.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / report_name(run_id)


# Pattern of ids that can be used in a file name.
_SAFE_ID = re.compile(r"\w[\w.-]{0,199}", re.ASCII)


def reports_in(folder: Path, run_ids: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return the names of the reports in a folder, after a prefix, by run id; none if there is no such folder."""
    files = {one: folder / report_name(one) for one in run_ids if _SAFE_ID.fullmatch(one)}
    return {run_id: prefix + path.name for run_id, path in files.items() if path.is_file()}


def write_missing(opened: "Store", run_ids: Iterable[str], folder: Path, *, overwrite: bool) -> None:
    """Create a folder for reports if there is none, and write the missing ones, skipping runs that cannot be read.

    overwrite: Write all reports, also those that exist.
    """
    from run_specialist.views.report import report  # noqa: PLC0415 - fast `--help`

    folder.mkdir(mode=0o700, exist_ok=True)
    paths = {run_id: folder / report_name(run_id) for run_id in run_ids if _SAFE_ID.fullmatch(run_id)}
    missing = {run_id: path for run_id, path in paths.items() if overwrite or not path.exists()}
    say(f"writing {counted(len(missing), 'report')}", dim=True)
    for run_id, path in missing.items():
        try:
            page = report(*with_related(opened, run_id)).encode("utf-8", "replace")
            write_private(path, page, overwrite=overwrite)
        except RunSpecialistError as error:
            say(f"no report of {run_id}: {error}")
        except FileExistsError:
            say(f"no report of {run_id}: {path} already exists")


def with_related(opened: "Store", run_id: str) -> tuple["StoredRun", Mapping[str, "StoredRun"], "RelatedRuns"]:
    """Return a run, all its descendants by id, and the runs to compare it with.

    Raises RunSpecialistError for a run that cannot be read.
    """
    from run_specialist.views.report import descendants, kin  # noqa: PLC0415 - fast `--help`

    stored = opened.load(run_id)
    return stored, descendants(stored, opened.load), kin(stored, opened.load, opened.forks(stored))


def open_page(path: Path) -> None:
    """Open a file in the browser; if there is none, print one line with the address of the file.

    BROWSER chooses the browser, as for Python's `webbrowser`.
    """
    import webbrowser  # noqa: PLC0415 - fast `--help`

    # An absolute file:// address: its special characters are encoded, so that no shell or option parser sees them.
    address = path.resolve().as_uri()
    with suppress(webbrowser.Error, OSError, ValueError):
        if webbrowser.open(address):
            return
    say(f"no browser could be started; open {address}")
