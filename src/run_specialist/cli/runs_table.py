"""Print stored runs as a table: with as many columns as fit the terminal, the other values on a line below each run."""

import os
import re
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.console import has_colours, is_terminal, printable
from run_specialist.cli.table import GAP, cell_width, print_table, print_table_with_lines, shortened

if TYPE_CHECKING:
    from run_specialist.store.stored import ListedRun

_SHORTEST_QUESTION = 24
"""Minimum width of the question column; in a narrower terminal the question is below each run [columns]."""
_LARGEST_SHARE = 0.4
"""Maximum share of the width for the values that precede the question."""
_LONGEST_CELL = 24
_LONGEST_ID = 30
"""Width of a run id indented by two levels [columns]."""
_DROPPED_FIRST = ("PROJECT", "SPECIALIST", "MODEL", "COST", "CALLS", "DURATION", "STARTED", "STATUS")
"""Columns in the order in which a narrow terminal moves them to the line below."""
_MINUTE, _HOUR = 60, 3_600


class Cell(NamedTuple):
    """A value of a run."""

    text: str
    """The value in its column."""
    words: str
    """The value in the line below the run, where it has no heading."""


def print_runs(found: Sequence["ListedRun"], *, projects: bool = False, words: str = "") -> None:
    """Print a table of runs, or nothing if there are none; child runs are indented below their parent.

    found: newest first.
    projects: add the column of projects.
    words: highlighted on a terminal with colors, in the questions.
    """
    from run_specialist.store.run_trees import as_tree  # noqa: PLC0415 - fast `--help`

    if not found:
        return
    rows = [run_cells(run, depth, projects=projects) for run, depth in as_tree(found)]
    questions = [question_of(run, depth) for run, depth in as_tree(found)]
    print_cells(rows, questions, pattern_of(words), _DROPPED_FIRST)


def print_cells(
    rows: Sequence[dict[str, Cell]],
    questions: Sequence[str],
    highlight: re.Pattern[str] | None,
    dropped: Sequence[str],
) -> None:
    """Print rows with their questions: in a column if the terminal has space for it, else below each row.

    rows: at least one, all with the same headings, of which the first column is an id.
    highlight: what to highlight in the questions, on a terminal with colors.
    dropped: columns in the order in which a narrow terminal moves them to the line below.
    """
    if not is_terminal():
        print_table([*rows[0], "QUESTION"], [[*_texts(row), asked] for row, asked in zip(rows, questions, strict=True)])
        return
    width = shutil.get_terminal_size().columns
    widths = {
        head: min(max(cell_width(head), *(cell_width(row[head].text) for row in rows)), _longest(head))
        for head in rows[0]
    }
    columns = fitting(widths, width - GAP - _SHORTEST_QUESTION, dropped)
    if len(columns) == len(widths):
        front = [[*_texts(row), asked] for row, asked in zip(rows, questions, strict=True)]
        print_table([*widths, "QUESTION"], front, highlight)
        return
    columns = fitting(widths, width, dropped)
    apart = any(needs_own_line(row, columns, width) for row in rows)
    below = [lines_below(row, columns, asked, width, apart=apart) for row, asked in zip(rows, questions, strict=True)]
    lines = ["\n".join(highlighted(line, highlight) for line in some) for some in below]
    print_table_with_lines(columns, [[row[head].text for head in columns] for row in rows], lines)


def run_cells(run: "ListedRun", depth: int, *, projects: bool) -> dict[str, Cell]:
    """Return the values of a run by the heading of their columns, without the question."""
    cost = "unknown" if run.cost_usd is None else dollars(run.cost_usd)
    calls = f"{run.tool_calls:,}"
    duration = "" if run.duration_s is None else duration_words(run.duration_s)
    cells = {
        "RUN": Cell(f"{'  ' * depth}{run.run_id}", run.run_id),
        "SPECIALIST": same(one_line(run.specialist)),
        "STATUS": same(run.status),
        "MODEL": same(one_line(run.model)),
        "CALLS": Cell(calls, f"{calls} call{'' if run.tool_calls == 1 else 's'}"),
        "COST": Cell(cost, "cost unknown" if run.cost_usd is None else cost),
        "DURATION": same(duration),
        "STARTED": same(started(run.started_at)),
    }
    return cells | ({"PROJECT": project_cell(run.project)} if projects else {})


def question_of(run: "ListedRun", depth: int) -> str:
    """Return the question of a run on one line, after the id of a parent that is not listed, or of a fork's source."""
    parent = "" if depth or run.parent_id is None else f"(of {run.parent_id}) "
    source = f" (fork of {run.forked_from} at turn {run.forked_at})" if run.forked_from else ""
    return f"{parent}{one_line(run.question)}{source}"


def fitting(widths: dict[str, int], available: int, dropped: Sequence[str] = _DROPPED_FIRST) -> list[str]:
    """Return the columns that fit the available width, in order; the id is always included.

    widths: by heading.
    dropped: columns in the order in which they are omitted.
    """
    columns = list(widths)
    for head in dropped:
        if sum(widths[one] + GAP for one in columns) - GAP <= available:
            break
        if head in columns:
            columns.remove(head)
    return columns


def needs_own_line(cells: dict[str, Cell], columns: Sequence[str], width: int) -> bool:
    """Return whether the values that have no column would leave little space for the question."""
    return cell_width(", ".join(_left(cells, columns))) > width * _LARGEST_SHARE


def lines_below(cells: dict[str, Cell], columns: Sequence[str], question: str, width: int, *, apart: bool) -> list[str]:
    """Return the lines below a run: the values that have no column, and the question.

    apart: whether the question has a separate line.
    """
    values = [printable(value) for value in _left(cells, columns)]
    first = next(iter(cells.values())).text
    indent = " " * (GAP + len(first) - len(first.lstrip()))
    lines = [""]
    for value in values:
        longer = f"{lines[-1]}, {value}" if lines[-1] else value
        # A line ends between two values, so that no date is broken.
        lines = (
            [*lines[:-1], longer] if cell_width(longer) < width - len(indent) else [*lines[:-1], f"{lines[-1]},", value]
        )
    question = printable(question)
    if apart:
        lines.append(question)
    else:
        lines[-1] = f"{lines[-1]}: {question}" if lines[-1] else question
    return [shortened(indent + line, width) for line in lines if line]


def _left(cells: dict[str, Cell], columns: Sequence[str]) -> list[str]:
    return [cell.words for head, cell in cells.items() if head not in columns and cell.words]


def pattern_of(words: str) -> re.Pattern[str] | None:
    """Return a pattern of words to highlight; None if there are none, or if the terminal shows no colors."""
    parts = [re.escape(printable(word)) for word in sorted(words.split(), key=len, reverse=True)]
    return re.compile("|".join(parts), re.IGNORECASE) if parts and has_colours() else None


def highlighted(line: str, pattern: re.Pattern[str] | None) -> str:
    """Return a printable line with the matches highlighted."""
    return line if pattern is None else pattern.sub(lambda match: typer.style(match[0], fg="yellow", bold=True), line)


def duration_words(seconds: float) -> str:
    """Return a duration in short form, e.g. `4.2 s`, `42 s`, `3m 20s`, `1h 05m`."""
    if seconds < 10:  # noqa: PLR2004 - one digit
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02}s"
    return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02}m"


def one_line(text: str) -> str:
    """Return a text on one line, with each run of whitespace as a single space."""
    return " ".join(text.split())


def short_path(path: str) -> str:
    """Return a path with `~` for the home folder."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises without a home folder
    inside = home not in {"", "/"} and (path == home or path.startswith(home + os.sep))
    return f"~{path[len(home) :]}" if inside else path


def _texts(row: dict[str, Cell]) -> list[str]:
    return [cell.text for cell in row.values()]


def same(text: str) -> Cell:
    """Return a value that looks the same with and without a heading."""
    return Cell(text, text)


def _longest(head: str) -> int:
    return _LONGEST_ID if head in {"RUN", "BATCH"} else _LONGEST_CELL


def project_cell(path: str | None) -> Cell:
    """Return the project of a run or a batch; on a terminal only the end of a long path, which tells them apart."""
    if path is None:
        return Cell("unknown", "project unknown")
    shown = short_path(one_line(path))
    if not is_terminal() or cell_width(shown) <= _LONGEST_CELL:
        return same(shown)
    name = Path(shown).name
    return Cell(f"…/{name}" if cell_width(name) <= _LONGEST_CELL - GAP else name, shown)


def started(at: float) -> str:
    """Return a time in short form: date and time, or date and year if it is not in the current year."""
    then = datetime.fromtimestamp(at).astimezone()
    return f"{then:%d %b %H:%M}" if then.year == datetime.now().astimezone().year else f"{then:%d %b %Y}"
