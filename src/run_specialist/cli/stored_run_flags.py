"""Arguments and options of the commands that read stored runs."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.console import fail, printable
from run_specialist.cli.runs_table import one_line, short_path
from run_specialist.cli.show_runs import counted
from run_specialist.errors import RunNotFound

if TYPE_CHECKING:
    from run_specialist.store.reader import Store

DEFAULT_LIMIT = 20
"""Number of runs listed without `--limit`."""
COMPLETIONS = 50
"""Number of runs offered by shell completion."""
ALL = sys.maxsize
"""Value of `--limit none`."""
STATUSES = ("running", "interrupted", "answered", "landed", "partial", "failed", "aborted")

_AGE = re.compile(r"([0-9]{1,6})\s*([mhdw])", re.ASCII)
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def open_store(store: str | None) -> "Store":
    """Open the store named by `--store`, or the default store; raises StoreUnusable."""
    from run_specialist.store.location import place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - fast `--help`

    return Store(place(store).url)


def project_filter(root: Path | None, *, all_projects: bool) -> str | None:
    """Return the project to which a command is limited, in the form stored with runs; None for all projects."""
    from run_specialist.specialist.project import project_path  # noqa: PLC0415 - fast `--help`

    if root is not None and not root.is_dir():
        fail(f"--root: {root} is not a folder")
    return None if all_projects else project_path((root or Path.cwd()).absolute())


def find_run(opened: "Store", run: str, project: str | None) -> str:
    """Return the id of a run; raises RunNotFound.

    run: as given: an id or a prefix of any project, or `last` for the newest of this project.
    """
    from run_specialist.store.reader import LAST  # noqa: PLC0415 - fast `--help`

    try:
        return opened.find(run, project).run_id
    except RunNotFound as error:
        if run == LAST and project and opened.count_elsewhere(project):
            raise RunNotFound(f"{error}: use --all-projects or the id of a run") from None
        raise


def find_batch(url: str, batch: str, project: str | None) -> str:
    """Return the id of a batch; raises RunNotFound.

    batch: as given: an id or a prefix of any project, or `last` for the newest of this project.
    """
    from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`

    with StoredBatches(url) as opened:
        return opened.find(batch, project).batch_id


def nothing_found(opened: "Store", project: str | None, *, filtered: bool) -> str:
    """Return the line for an empty listing.

    filtered: whether there are filters other than the project.
    """
    from run_specialist.store.location import shown  # noqa: PLC0415 - fast `--help`

    what = "no matching runs" if filtered else "no runs"
    if project is None:
        return f"{what} in {shown(opened.url)}"
    elsewhere = opened.count_elsewhere(project)
    others = f"other projects have {counted(elsewhere)}, listed by --all-projects" if elsewhere else ""
    return "; ".join([f"{what} of {short_path(project)}", *([others] if others else [])])


def complete_runs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids and questions of matching runs for shell completion: without a prefix, those of this project."""
    from run_specialist.store.selection import Selection  # noqa: PLC0415 - fast `--help`

    try:
        with open_store(context.params.get("store")) as opened:
            project = None if incomplete else project_filter(None, all_projects=False)
            ids = [incomplete] if incomplete else ()
            found = opened.trees(Selection(ids, project=project, without_batches=not ids), COMPLETIONS)
    except Exception:  # noqa: BLE001 - shell completion must not print errors
        return []
    return [(one.run_id, printable(one_line(one.question))) for one in found]


def complete_batches(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids and questions of matching batches for shell completion, like `complete_runs`."""
    from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.location import place  # noqa: PLC0415 - fast `--help`

    try:
        with StoredBatches(place(context.params.get("store")).url) as opened:
            found = opened.listed(None if incomplete else project_filter(None, all_projects=False))
    except Exception:  # noqa: BLE001 - shell completion must not print errors
        return []
    matching = [one for one in found if one.batch_id.startswith(incomplete)][:COMPLETIONS]
    return [(one.batch_id, printable(one_line(one.question))) for one in matching]


def _age(text: str) -> float:
    found = _AGE.fullmatch(text.strip().lower())
    if not found:
        raise typer.BadParameter(f"{text!r} is not an age; expected e.g. 12h, 30d or 8w")
    return int(found[1]) * _SECONDS[found[2]]


def _count(text: str) -> int:
    if text.strip().lower() == "none":
        return ALL
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise typer.BadParameter(f"{text!r} is not a number of runs; expected a whole number or none")
    return int(text)


def _newest(what: str, otherwise: str) -> Any:  # noqa: ANN401 - as `typer.Option`
    """Return the option `--limit` of a list.

    what: the listed things, for the help text.
    otherwise: other defaults with their conditions, for the help text.
    """
    return typer.Option(
        "--limit",
        metavar="N|none",
        parser=_count,
        help=f"Only the newest N {what}.  [default: {DEFAULT_LIMIT}; {otherwise}]",
    )


def _words(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("there are no words to search for")
    return text


def _status(text: str) -> str:
    if text not in STATUSES:
        raise typer.BadParameter(f"{text!r} is not a status; expected one of {', '.join(STATUSES)}")
    return text


RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id of the run, an unambiguous prefix, or `last`: the newest of this project.",
        autocompletion=complete_runs,
    ),
]
ReportedRun = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="Id of the run or the batch, an unambiguous prefix, or `last`: the newest run.",
        autocompletion=complete_runs,
    ),
]
RunIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Run ids, prefixes of ids, or `last`.", autocompletion=complete_runs),
]
SpecialistFilter = Annotated[str | None, typer.Option("--specialist", metavar="NAME", help="Runs of this specialist.")]
StatusFilter = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        parser=_status,
        autocompletion=lambda: STATUSES,
        help=f"Runs with this status: {', '.join(STATUSES)}.",
    ),
]
OlderThan = Annotated[
    float | None,
    typer.Option("--older-than", metavar="AGE", parser=_age, help="Runs that ended longer ago, e.g. 12h, 30d or 8w."),
]
Limit = Annotated[int | None, _newest("runs", "with --json or --delete, none")]
AllProjects = Annotated[
    bool, typer.Option("--all-projects", help="Include the runs of other projects, not only of this one.")
]
RunsRoot = Annotated[
    Path | None, typer.Option("--root", metavar="FOLDER", help="Project of the runs.  [default: the project root]")
]
Search = Annotated[
    str | None,
    typer.Option(
        "--search", metavar="WORDS", parser=_words, help="Runs with all these words in the questions or the answer."
    ),
]
BatchLimit = Annotated[int | None, _newest("batches", "with --json, none")]
BatchFilter = Annotated[
    str | None,
    typer.Option("--batch", metavar="ID", autocompletion=complete_batches, help="Runs of this batch."),
]
BatchId = Annotated[
    str | None,
    typer.Argument(
        metavar="BATCH",
        help="Id of a batch, an unambiguous prefix, or `last`: the newest of this project.",
        autocompletion=complete_batches,
    ),
]
