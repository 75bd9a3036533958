"""Write the page of a batch for `specialists report BATCH`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.cli.console import fail, print_json
from run_specialist.cli.report_file import report_path
from run_specialist.cli.report_index import SAFE_ID, STDOUT, print_page, reports_in, write_missing
from run_specialist.cli.write_report import write_report

if TYPE_CHECKING:
    from run_specialist.store.batch_reader import StoredBatches
    from run_specialist.store.batches import StoredBatch
    from run_specialist.store.reader import Store


def write_batch(
    opened: "Store", run: str, out: Path | None, *, with_reports: bool, overwrite: bool, json_: bool
) -> Path | bool:
    """Write or print the page of a batch; return the path of the file, or True if the page was printed.

    Return False if `run` is not the id of a batch, or an unambiguous prefix of one.
    with_reports: also write the reports that are missing, into a folder beside the page.
    overwrite: replace files; an older page beside the store is always replaced.
    """
    from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`

    with StoredBatches(opened.url) as batches:
        batch = batches.meant(run)
        if batch is None:
            return False
        if json_ or out == STDOUT:
            data = _data(batches, batch, None)
            if json_:
                print_json(data)
            else:
                print_page(_page(data))
            return True
        if not SAFE_ID.fullmatch(batch.batch_id) and (out is None or with_reports):
            fail(f"{batch.batch_id!r} cannot be part of a file name; name the file with --out")
        path = out or report_path(opened.url, batch.batch_id)
        folder = path.parent / f"report-{batch.batch_id}"
        if with_reports:
            folder.mkdir(mode=0o700, exist_ok=True)
            write_missing(opened, _runs(batches, batch), folder, overwrite=overwrite)
        write_report(path, _page(_data(batches, batch, folder)), named=out is not None, overwrite=overwrite)
        return path


def _data(batches: "StoredBatches", batch: "StoredBatch", folder: Path | None) -> Mapping[str, Any]:
    """Return the data of the page; for an eval, also its result.

    folder: where to look for reports; None = link none.
    """
    from run_specialist.evals.kept_result import kept_result  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.batch_failures import failures  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.batch_page import batch_data  # noqa: PLC0415 - fast `--help`

    batch_id = batch.batch_id
    names = {}
    if folder is not None and folder.is_dir():
        names = reports_in(folder, _runs(batches, batch))
    links = {run_id: f"{folder.name}/{name}" for run_id, name in names.items()} if folder else {}
    reasons = failures(batches.items(batch_id, failures=True))
    data = batch_data(batch, batches.tally(batch_id), reasons, batches.items(batch_id), links)
    result = kept_result(batch.frozen)
    return data if result is None else {**data, "eval": result, "reports": links}


def _runs(batches: "StoredBatches", batch: "StoredBatch") -> Iterator[str]:
    """Yield the run ids of a batch, and of the baseline that an eval compares with."""
    from run_specialist.evals.kept_result import kept_result  # noqa: PLC0415 - fast `--help`

    begun = {item.run_id: None for item in batches.items(batch.batch_id) if item.started_at is not None}
    compared = (kept_result(batch.frozen) or {}).get("runs", ())
    yield from begun
    yield from (one["run_id"] for one in compared if one["run_id"] and one["run_id"] not in begun)


def _page(data: Mapping[str, Any]) -> str:
    """Return the page of a batch, or of an eval whose result is stored."""
    if (result := data.get("eval")) is not None:
        from run_specialist.views.eval_page import eval_page  # noqa: PLC0415 - fast `--help`

        return eval_page(result, data["reports"])
    from run_specialist.views.batch_page import batch_page  # noqa: PLC0415 - fast `--help`

    return batch_page(data)
