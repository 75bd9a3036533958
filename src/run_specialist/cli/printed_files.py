"""Format specialist files for the commands: paths, problems, texts on one line."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from run_specialist.api.flag_names import with_flags
from run_specialist.cli.console import fail, is_terminal, print_line, printable
from run_specialist.cli.wrapping import wrapped

if TYPE_CHECKING:
    from run_specialist.specialist.problems import Problem


def project_folder(given: Path | None) -> Path:
    """Return the folder of `--root`, otherwise the current project; exit if the folder does not exist."""
    from run_specialist.specialist.project import project_root  # noqa: PLC0415 - fast `--help`

    if given is not None and not given.is_dir():
        fail(f"--root: {given} is not a folder")
    return given or project_root(Path.cwd())


def relative(path: Path) -> Path:
    """Return the path relative to the current folder if it is inside of it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def print_problems(problems: Sequence["Problem"]) -> None:
    """Print a line for each problem, with the path relative to the current folder; wrapped on a terminal."""
    for problem in problems:
        line = with_flags(str(replace(problem, path=relative(problem.path))))
        lines = wrapped(printable(line), shutil.get_terminal_size().columns) if is_terminal() else [line]
        print_line("\n".join(lines))


def one_line(text: str) -> str:
    """Return the text on one line, without control characters."""
    from run_specialist.specialist.problems import shown  # noqa: PLC0415 - fast `--help`

    return shown(" ".join(text.split()), None)
