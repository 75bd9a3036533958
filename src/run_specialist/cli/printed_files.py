"""Format specialist files for the commands: paths, problems, texts on one line."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from run_specialist.api.flag_names import with_flags
from run_specialist.cli.console import fail, has_colours, is_terminal, print_line, print_styled, printable
from run_specialist.cli.wrapping import wrapped

if TYPE_CHECKING:
    from run_specialist.specialist.problems import Problem

_COLORS = {"error": "red", "warning": "yellow"}


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
    """Print a line for each problem, with the path relative to the current folder; its color shows the level."""
    for problem in problems:
        line = with_flags(str(replace(problem, path=relative(problem.path))))
        if not is_terminal():
            print_line(line)
            continue
        text = "\n".join(wrapped(printable(line), shutil.get_terminal_size().columns))
        color = _COLORS.get(problem.level) if has_colours() else None
        print_styled(typer.style(text, fg=color) if color else text)


def one_line(text: str) -> str:
    """Return the text on one line, without control characters."""
    from run_specialist.specialist.problems import shown  # noqa: PLC0415 - fast `--help`

    return shown(" ".join(text.split()), None)
