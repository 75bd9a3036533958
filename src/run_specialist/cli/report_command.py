"""The command `specialists report`: write the page of a run or a batch, or an index of all runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.batch.report_batch import write_batch
from run_specialist.cli.console import fail, guarded, print_json, print_line
from run_specialist.cli.flags import Overwrite, StoreUrl
from run_specialist.cli.open_page import open_page
from run_specialist.cli.related_runs import with_related
from run_specialist.cli.report_file import report_path
from run_specialist.cli.report_index import STDOUT, flags_problem, print_page, write_index
from run_specialist.cli.stored_run_flags import (
    AllProjects,
    ReportedRun,
    RunsRoot,
    find_run,
    open_store,
    project_filter,
)
from run_specialist.cli.write_report import write_report

if TYPE_CHECKING:
    from run_specialist.store.reader import Store


OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "--output",
        metavar="FILE",
        help="Output file; `-` for standard output.  [default: report-RUN.html beside the store]",
    ),
]
Index = Annotated[bool, typer.Option("--index", help="A page that lists all runs.  [default file: report-index.html]")]
WithReports = Annotated[
    bool, typer.Option("--with-reports", help="With --index or a batch: also write the reports that are missing.")
]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
PageJson = Annotated[bool, typer.Option("--json", help="Print the data of the page as one JSON object.")]


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
    """Write an HTML report of a run or a batch, or an index of all runs."""
    if problem := flags_problem(run, out, index=index, with_reports=with_reports, open_=open_, json_=json_):
        fail(problem)
    with guarded(), open_store(store) as opened:
        project = project_filter(root, all_projects=all_projects)
        if run is None:
            path = write_index(opened, project, out, with_reports=with_reports, overwrite=force, json_=json_)
            _show_page(path, open_=open_)
            return
        written = write_batch(opened, run, out, with_reports=with_reports, overwrite=force, json_=json_)
        if written is not False:
            _show_page(None if written is True else written, open_=open_)
            return
        if with_reports:
            fail("--with-reports needs --index or a batch")
        path = _write_run(opened, find_run(opened, run, project), out, overwrite=force, json_=json_)
        _show_page(path, open_=open_)


def _write_run(opened: "Store", run_id: str, out: Path | None, *, overwrite: bool, json_: bool) -> Path | None:
    """Write or print the page of a run; return the path of the file, or None if the page was printed."""
    from run_specialist.views import report as view  # noqa: PLC0415 - fast `--help`

    shown = with_related(opened, run_id)
    if json_:
        print_json(view.data(*shown))
        return None
    page = view.report(*shown)
    if out == STDOUT:
        print_page(page)
        return None
    path = out or report_path(opened.url, run_id)
    write_report(path, page, named=out is not None, overwrite=overwrite)
    return path


def _show_page(path: Path | None, *, open_: bool) -> None:
    """Print the path of a page, if it is in a file, and open it on request."""
    if path:
        print_line(str(path))
        if open_:
            open_page(path)
