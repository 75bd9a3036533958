"""Print tables, and stored runs as rows."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from run_specialist.budget import dollars
from run_specialist.cli.console import has_colours, is_terminal, one_line, print_line, print_styled, printable, wrapped
from run_specialist.store.location import place, shown
from run_specialist.views.page import iso

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from run_specialist.store.reader import Store
    from run_specialist.store.stored import ListedRun


GAP = 2
# Maximum width of a column in the middle, and minimum width of the last one [columns].
_WIDEST = 24
# Share of the width up to which the values of other columns precede the text of the last one on its line.
_LARGEST_SHARE = 0.4
# Width that is reserved for a run id indented by two levels [columns]; ids are never cut, because users copy them.
_WIDEST_ID = 30
# Width used for a pipe, so that nothing is cut [columns].
_UNLIMITED = 1_000_000
# Replacements for bars, marks and lines, in an encoding that has none.
_ASCII = str.maketrans("▏▎▍▌▋▊▉█•✓✗│─", "########-+x>-")
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
RUN_WIDTHS = {
    "RUN": 26,
    "SPECIALIST": 20,
    "STATUS": 11,
    "MODEL": 20,
    "CALLS": 5,
    "COST": 7,
    "DURATION": 8,
    "STARTED": 12,
    "PROJECT": 24,
    "QUESTION": _WIDEST,
}
"""Widths of the columns of runs whose later rows are unknown."""
RUNS_DROPPED = ("PROJECT", "SPECIALIST", "MODEL", "COST", "CALLS", "DURATION", "STARTED", "STATUS")
"""Columns in the order in which a narrow terminal moves them to the line below."""


class Columns:
    """Lines of a table: uncut in a pipe; on a terminal, what does not fit beside the rest is on a line below each row.

    The last column is the first to move below, then those of `dropped`, in that order.
    """

    def __init__(
        self, widths: Mapping[str, int], dropped: Sequence[str] = (), highlight: re.Pattern[str] | None = None
    ) -> None:
        """Choose the columns beside each other.

        widths: by heading, for all but the last column, which takes the rest of the line.
        highlight: what to highlight in the last column.
        """
        self._widths, self._highlight = widths, highlight
        self._width = shutil.get_terminal_size().columns if is_terminal() else _UNLIMITED
        self._shown = [*widths]
        *front, last = widths
        if sum(widths[head] + GAP for head in front) + min(widths[last], _WIDEST) > self._width:
            self._shown = front
            for head in dropped:
                if sum(widths[one] + GAP for one in self._shown) - GAP > self._width and head in self._shown:
                    self._shown.remove(head)

    def print(self, rows: Iterable[Mapping[str, str]], *, head: bool = True) -> None:
        """Print rows, after the line of headings if `head` is set."""
        from rich.text import Text  # noqa: PLC0415 - fast `--help`

        heading = [self._line({one: one for one in self._shown})] if head else []
        print_rendered(Text("\n", no_wrap=True).join([*heading, *map(self._row, rows)]), _UNLIMITED)

    def _row(self, cells: Mapping[str, str]) -> "Text":
        """Return the line of a row, and the line below it if there is one."""
        line = self._line(cells)
        *front, last = cells
        if last in self._shown:
            return line
        left = [(head, cells[head]) for head in front if head not in self._shown and cells[head]]
        # Without its heading, a number needs a label.
        unclear = re.compile(r"unknown|[0-9,]+")
        named = [f"{head.lower()} {text}" if unclear.fullmatch(text) else text for head, text in left]
        values, text = printable(", ".join(named)), printable(cells[last])
        first = next(iter(cells.values()))
        indent = " " * (GAP + len(first) - len(first.lstrip()))
        texts = [f"{values}: {text}" if values else text]
        if len(values) > self._width * _LARGEST_SHARE:
            texts = [*wrapped(values, self._width - len(indent)), text]
        for one in texts:
            below = line.blank_copy(indent + one)
            if self._highlight:
                below.highlight_regex(self._highlight, "bold yellow")
            below.truncate(self._width, overflow="ellipsis")
            line.append("\n").append(below)
        return line

    def _line(self, cells: Mapping[str, str]) -> "Text":
        from rich.text import Text  # noqa: PLC0415 - fast `--help`

        line = Text(no_wrap=True)
        for head in self._shown:
            # In a pipe, the text is not shown to a person by this program.
            text = cells[head] if self._width == _UNLIMITED else printable(cells[head])
            cell = Text(text, _STYLES.get(text, ""))
            if head == [*self._widths][-1]:
                cell.truncate(max(self._width - line.cell_len, 1), overflow="ellipsis")
                if self._highlight:
                    cell.highlight_regex(self._highlight, "bold yellow")
            elif line and self._width < _UNLIMITED:
                cell.truncate(self._widths[head], overflow="ellipsis", pad=True)
            else:
                cell.pad_right(max(self._widths[head] - cell.cell_len, 0))
            line.append(cell).append(" " * GAP)
        line.rstrip()
        return line


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    dropped: Sequence[str] = (),
    highlight: re.Pattern[str] | None = None,
) -> None:
    """Print rows in columns.

    dropped: columns in the order in which a narrow terminal moves them to the line below.
    highlight: what to highlight in the last column, on a terminal with colors.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - fast `--help`

    most = [_WIDEST_ID, *(_WIDEST for _ in head[1:])] if is_terminal() else [_UNLIMITED] * len(head)
    longest = (max(cell_len(printable(cell)) for cell in column) for column in zip(head, *rows, strict=True))
    columns = Columns(dict(zip(head, map(min, longest, most), strict=True)), dropped, highlight)
    columns.print(dict(zip(head, row, strict=True)) for row in rows)


def print_runs(found: Sequence["ListedRun"], *, projects: bool = False, words: str = "") -> None:
    """Print a table of runs, or nothing if there are none; child runs are indented below their parent.

    found: newest first.
    projects: add the column of projects.
    words: highlighted on a terminal with colors, in the questions.
    """
    from run_specialist.store.stored import as_tree  # noqa: PLC0415 - fast `--help`

    rows = [run_cells(run, depth, projects=projects) for run, depth in as_tree(found)]
    if rows:
        cells = [[*row.values()] for row in rows]
        print_table([*rows[0]], cells, dropped=RUNS_DROPPED, highlight=pattern_of(words))


def run_cells(run: "ListedRun", depth: int, *, projects: bool) -> dict[str, str]:
    """Return the values of a run by the heading of their columns.

    The question follows the id of a parent that is not listed, and precedes that of a fork's source.
    """
    parent = "" if depth or run.parent_id is None else f"(of {run.parent_id}) "
    source = f" (fork of {run.forked_from} at turn {run.forked_at})" if run.forked_from else ""
    return {
        "RUN": f"{'  ' * depth}{run.run_id}",
        "SPECIALIST": one_line(run.specialist),
        "STATUS": run.status,
        "MODEL": one_line(run.model),
        "CALLS": f"{run.tool_calls:,}",
        "COST": "unknown" if run.cost_usd is None else dollars(run.cost_usd),
        "DURATION": "" if run.duration_s is None else duration_words(run.duration_s),
        "STARTED": started(run.started_at),
        **({"PROJECT": project_cell(run.project)} if projects else {}),
        "QUESTION": f"{parent}{one_line(run.question)}{source}",
    }


def pattern_of(words: str) -> re.Pattern[str] | None:
    """Return a pattern of words to highlight; None if there are none."""
    parts = [re.escape(printable(word)) for word in sorted(words.split(), key=len, reverse=True)]
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def duration_words(seconds: float) -> str:
    """Return a duration in short form, e.g. `4.2 s`, `42 s`, `3m 20s`, `1h 05m`."""
    if seconds < 10:  # noqa: PLR2004 - one digit
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {rest:02}s" if minutes else f"{rest} s"


def short_path(path: str) -> str:
    """Return a path with `~` for the home folder."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises without a home folder
    inside = home not in {"", "/"} and (path == home or path.startswith(home + os.sep))
    return f"~{path[len(home) :]}" if inside else path


def project_cell(path: str | None) -> str:
    """Return the project of a run or a batch; on a terminal only the end of a long path, which tells them apart."""
    shown = "unknown" if path is None else short_path(one_line(path))
    return f"…/{os.path.basename(shown)}" if is_terminal() and len(shown) > _WIDEST else shown  # noqa: PTH119 - a text


def started(at: float) -> str:
    """Return a time in short form: date and time, or date and year if it is not in the current year."""
    then = datetime.fromtimestamp(at).astimezone()
    return f"{then:%d %b %H:%M}" if then.year == datetime.now().astimezone().year else f"{then:%d %b %Y}"


def print_rendered(renderable: "RenderableType", width: int | None = None) -> None:
    """Print a renderable, in color if the terminal shows colors, without trailing spaces.

    width: in columns; None = that of the terminal.
    """
    print_styled("\n".join(rendered_lines(renderable, width)))


def rendered_lines(renderable: "RenderableType", width: int | None = None) -> Iterator[str]:
    """Yield the lines of a renderable as `print_rendered` prints them."""
    from rich.console import Console  # noqa: PLC0415 - fast `--help`

    colors = has_colours()
    console = Console(
        width=width or shutil.get_terminal_size().columns,
        color_system="standard" if colors else None,
        force_terminal=colors,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(renderable)
    text = captured.get().removesuffix("\n")
    yield from (line.rstrip() for line in (text.translate(_ASCII) if console.options.ascii_only else text).split("\n"))


def size_of(opened: "Store | str | None") -> dict[str, Any]:
    """Return location and size of a store, as keys of JSON.

    opened: the store, or the value of `--store` if it does not exist yet.
    """
    if opened is None or isinstance(opened, str):
        return {"store": shown(place(opened).url), "size_bytes": 0}
    return {"store": shown(opened.url), "size_bytes": opened.size}


def size_line(opened: "Store") -> str:
    """Return size and location of a store, as text."""
    from rich.filesize import decimal  # noqa: PLC0415 - fast `--help`

    found = size_of(opened)
    return f"{decimal(int(found['size_bytes']))} in {found['store']}"


def as_json(run: "ListedRun") -> dict[str, Any]:
    """Return a run as an item of `runs --json`; times in UTC."""
    ended_at = None if run.ended_at is None else iso(run.ended_at)
    return {**asdict(run), "started_at": iso(run.started_at), "ended_at": ended_at}


def print_labelled(label: str, text: str = "") -> None:
    """Print a label, dimmed on a terminal, followed by a text."""
    if has_colours():
        print_styled(typer.style(printable(label), dim=True) + printable(text))
    else:
        print_line(label + text)


def local(at: float) -> str:
    """Return a time in the local time zone.

    at: [seconds since 1970].
    """
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"
