"""Warn about result files that the specialist itself could read."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from run_specialist.cli.console import say
from run_specialist.errors import RunSpecialistError
from run_specialist.tools.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from run_specialist.specialist.loader import SpecialistFile


def warn_of_seen(outputs: Iterable[Path | None], root: Path, file: "SpecialistFile") -> None:
    """Print a warning for each output file that a specialist's file tools can read: it would find the answers there.

    outputs: files that were written; None for those that were not requested.
    root: the folder that the file tools can read.
    """
    for path in outputs:
        if path is not None and _is_seen(path, root, file):
            say(
                f"{path} is among the files that {file.name} reads, so its runs can find the answers there, and the "
                "next eval repeats them; write it elsewhere, or list it in .gitignore"
            )


def _is_seen(path: Path, root: Path, file: "SpecialistFile") -> bool:
    settings = file.specialist
    if settings is None or settings.tools == ():
        return False
    try:
        Sandbox(root, settings.paths or ()).locate(os.path.realpath(path))
    except RunSpecialistError:
        return False
    return True
