"""Write the page of a run or a batch to its file."""

from pathlib import Path

from run_specialist.cli.console import fail
from run_specialist.cli.private_file import write_private


def write_report(path: Path, page: str, *, named: bool, overwrite: bool) -> None:
    """Write a page, readable by its owner only.

    named: whether the user named the file; other files, beside the store, may be replaced.
    overwrite: replace the file even if the user named it.
    Raises OSError for a file that the user named.
    """
    try:
        # A page beside the store may be replaced; a link there was not made by this program.
        replace = overwrite or (not named and not path.is_symlink())
        write_private(path, page.encode("utf-8", "replace"), overwrite=replace)
    except FileExistsError:
        fail(f"{path} already exists; use --force to overwrite it")
    except OSError as error:
        if named:
            raise
        fail(f"{path} cannot be written: {error.strerror}; name another file with --out")
