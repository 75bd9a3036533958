"""The default file names of `specialists report`."""

from pathlib import Path


def report_name(run_id: str) -> str:
    """Return the file name of a run's report."""
    return f"report-{run_id}.html"


def report_path(url: str, run_id: str) -> Path:
    """Return the path of a page beside the store; for a server, in the folder of the default store.

    The folder is created if it does not exist, accessible to its owner only.
    """
    from run_specialist.store.location import default_folder, file_of  # noqa: PLC0415 - fast `--help`

    file = file_of(url)
    folder = default_folder() if file is None else file.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / report_name(run_id)
