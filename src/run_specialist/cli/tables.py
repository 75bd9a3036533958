"""Print tables, and stored runs as rows."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from run_specialist.budget import dollars
from run_specialist.cli.console import has_colours, is_terminal, print_line, print_styled, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from run_specialist.store.reader import Store
    from run_specialist.store.stored import ListedRun, Row


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
    from run_specialist.store.stored import as_tree  # noqa: PLC0415 - fast `--help`

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


_STYLES = {
    "ok": "green",
    "warning": "yellow",
    "error": "red",
    "blocked": "yellow",
    "default": "bright_black",
    "answered": "green",
    "landed": "green",
    "partial": "yellow",
    "interrupted": "yellow",
    "failed": "red",
    "aborted": "red",
    "running": "cyan",
}
HIGHLIGHT = "bold yellow"
GAP = 2
_MAX_WIDTH = 24
_MAX_FIRST_WIDTH = 30
"""Maximum width of the first column; fits a run id indented by two levels [columns]."""
_UNLIMITED = 1_000_000
"""Width used for a pipe, so that nothing is cut [columns]."""
_ASCII = str.maketrans("▏▎▍▌▋▊▉█", "########")
"""Replacements for the blocks of bars, in an encoding that has none."""


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], highlight: re.Pattern[str] | None = None) -> None:
    """Print rows in columns: uncut in a pipe, cut to the width of a terminal.

    On a terminal that is too narrow for the last column, each of its cells gets a line below its row.
    highlight: what to highlight in the last column, on a terminal.
    """
    from rich.text import Text  # noqa: PLC0415 - fast `--help`

    if not is_terminal():
        print_rendered(_table(head, rows, [None for _ in head]), _UNLIMITED)
        return
    rows = [[printable(cell) for cell in row] for row in rows]
    width = shutil.get_terminal_size().columns
    limits = [_MAX_FIRST_WIDTH, *(_MAX_WIDTH for _ in head[2:])]
    front = _table(head[:-1], [row[:-1] for row in rows], limits)
    last = max(Text(row[-1]).cell_len for row in (head, *rows))
    if _console(_UNLIMITED).measure(front).maximum + GAP + min(last, _MAX_WIDTH) <= width:
        print_rendered(_table(head, rows, [*limits, None], highlight), width)
        return
    below = [shortened(" " * GAP + row[-1], width) for row in rows]
    print_table_with_lines(head[:-1], [row[:-1] for row in rows], below)


def print_table_with_lines(head: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str]) -> None:
    """Print rows in columns, each followed by a line that is printable and short enough.

    The first column holds run ids, which users copy: it is not cut even if it does not fit.
    """
    limits = [_UNLIMITED, *(_MAX_WIDTH for _ in head[1:])]
    shown = [[printable(cell) for cell in row] for row in rows]
    first, *lines = _lines(_table(head, shown, limits), _UNLIMITED)
    print_styled(first)
    for line, after in zip(lines, below, strict=True):
        print_styled(f"{line}\n{after}")


def shortened(text: str, width: int) -> str:
    """Return a text cut to a width, with an ellipsis."""
    from rich.text import Text  # noqa: PLC0415 - fast `--help`

    cut = Text(text)
    cut.truncate(width, overflow="ellipsis")
    return cut.plain


def cell_width(text: str) -> int:
    """Return the width of a text on a terminal [columns]."""
    from rich.text import Text  # noqa: PLC0415 - fast `--help`

    return Text(printable(text)).cell_len


def print_rendered(renderable: "RenderableType", width: int | None = None) -> None:
    """Print a renderable, in color if the terminal shows colors, without trailing spaces.

    width: in columns; None = that of the terminal.
    """
    print_styled("\n".join(rendered_lines(renderable, width)))


def rendered_lines(renderable: "RenderableType", width: int | None = None) -> list[str]:
    """Return the lines of a renderable as `print_rendered` prints them."""
    return _lines(renderable, width or shutil.get_terminal_size().columns)


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    limits: Sequence[int | None],
    highlight: re.Pattern[str] | None = None,
) -> "Table":
    """Return a table without borders.

    limits: the maximum width of each column; None = that of its cells, or less if there is no space.
    highlight: what to highlight in the last column.
    """
    from rich.table import Table  # noqa: PLC0415 - fast `--help`
    from rich.text import Text  # noqa: PLC0415 - fast `--help`

    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="")
    for name, limit in zip(head, limits, strict=True):
        table.add_column(Text(name), no_wrap=limit is not None, overflow="ellipsis", max_width=limit)
    for row in rows:
        cells = [Text(cell, _STYLES.get(cell, ""), no_wrap=True) for cell in row]
        if highlight:
            cells[-1].highlight_regex(highlight, HIGHLIGHT)
        table.add_row(*cells)
    return table


def _lines(renderable: "RenderableType", width: int) -> list[str]:
    console = _console(width)
    with console.capture() as captured:
        console.print(renderable)
    text = captured.get().removesuffix("\n")
    return [line.rstrip() for line in (text.translate(_ASCII) if console.options.ascii_only else text).split("\n")]


def _console(width: int) -> "Console":
    from rich.console import Console  # noqa: PLC0415 - fast `--help`

    colors = has_colours()
    return Console(
        width=width, color_system="standard" if colors else None, force_terminal=colors, legacy_windows=False
    )


def store_size(opened: "Store") -> dict[str, Any]:
    """Return location and size of a store, as keys of JSON."""
    return _of(opened.url, opened.size)


def missing_store(store: str | None) -> dict[str, Any]:
    """Return the same keys for a store that does not exist yet.

    store: as given with `--store`.
    """
    from run_specialist.store.location import place  # noqa: PLC0415 - fast `--help`

    return _of(place(store).url, 0)


def size_line(opened: "Store") -> str:
    """Return size and location of a store, as text."""
    found = store_size(opened)
    return f"{size(found['size_bytes'])} in {found['store']}"


def _of(url: str, size_bytes: float) -> dict[str, Any]:
    from run_specialist.store.location import shown  # noqa: PLC0415 - fast `--help`

    return {"store": shown(url), "size_bytes": size_bytes}


NO_LINES: Mapping[int, str] = MappingProxyType({})


def as_json(run: "ListedRun") -> dict[str, Any]:
    """Return a run as an item of `runs --json`; times in UTC."""
    ended_at = None if run.ended_at is None else iso(run.ended_at)
    return {**asdict(run), "started_at": iso(run.started_at), "ended_at": ended_at}


END_OF_COPY = "the copied turns end here"
"""Line in the transcript of a fork before its own messages."""


def forked_line(run: "ListedRun") -> str:
    """Return the line that names the run that a fork begins with."""
    turns = run.forked_at or 0
    return f"forked from {run.forked_from} after {f'{turns} turn' if turns == 1 else f'{turns} turns'}"


def print_rows(rows: Sequence["Row"], lines: Mapping[int, str] = NO_LINES) -> None:
    """Print a transcript: each call on one line, all other messages indented below a label.

    lines: further lines, by the index of the row that they precede.
    """
    numbers: dict[object, int] = {}
    calls, before = 0, None
    for index, row in enumerate(rows):
        kind = row["kind"]
        if index in lines:
            before = None
            print_line("")
            print_labelled(lines[index])
        if (before, kind) != ("tool_call", "tool_call"):
            print_line("")
        before = kind
        if kind == "tool_call":
            calls += 1
            numbers[row["id"]] = calls
            print_labelled(f"call {calls}", f"  {row['name']} {json.dumps(row['arguments'], ensure_ascii=False)}")
        elif kind == "tool_result":
            number = f" {numbers[row['id']]}" if row["id"] in numbers else ""
            print_labelled(f"result{number}{', an error' if row['is_error'] else ''}")
            _print_indented(row["content"])
        else:
            print_labelled(kind)
            _print_indented(row["text"])


def print_labelled(label: str, text: str = "") -> None:
    """Print a label, dimmed on a terminal, followed by a text."""
    if has_colours():
        print_styled(typer.style(printable(label), dim=True) + printable(text))
    else:
        print_line(label + text)


def _print_indented(text: str) -> None:
    print_line("\n".join(f"  {line}".rstrip() for line in text.split("\n")))


def counted(runs: int) -> str:
    """Return e.g. `1 run` or `2 runs`."""
    return f"{runs:,} run{'' if runs == 1 else 's'}"


def size(number: float) -> str:
    """Return a size with its unit, e.g. `1.2 MB`.

    number: the size [bytes].
    """
    for unit in ("bytes", "kB", "MB"):
        if number < 1_000:  # noqa: PLR2004 - the next unit
            return f"{number:.3g} {unit}"
        number /= 1_000
    return f"{number:,.1f} GB"


def local(at: float) -> str:
    """Return a time in the local time zone.

    at: [seconds since 1970].
    """
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"


def iso(at: float) -> str:
    """Return a time in UTC as ISO 8601, with milliseconds.

    at: [seconds since 1970].
    """
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
