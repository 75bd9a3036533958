"""Write the page of an eval, and the reports of its runs beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_specialist.cli.private_file import write_private
from run_specialist.cli.report_index import reports_in, write_missing
from run_specialist.evals.past_evals import stored_runs


def write_page(path: Path, result: Mapping[str, Any], store: str | None, *, with_reports: bool) -> None:
    """Write a page that only its owner can read; an existing file is replaced.

    result: as `--json` prints it.
    store: URL of the store of the runs; None for the usual one.
    with_reports: also write the reports that are missing, into the folder `NAME-reports`.
    Raises OSError.
    """
    from run_specialist.views.eval_page import eval_page  # noqa: PLC0415 - fast `--help`

    folder = path.parent / f"{path.stem}-reports"
    ids = list(dict.fromkeys(one["run_id"] for one in result["runs"] if one["run_id"]))
    if with_reports:
        folder.mkdir(mode=0o700, exist_ok=True)
        with stored_runs(store) as known:
            if known.store is not None:
                write_missing(known.store, ids, folder, overwrite=False)
    reports = reports_in(folder, ids) if folder.is_dir() else {}
    links = {run_id: f"{folder.name}/{name}" for run_id, name in reports.items()}
    write_private(path, eval_page(result, links).encode("utf-8", "replace"), overwrite=True)
