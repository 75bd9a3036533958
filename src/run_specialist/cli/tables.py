"""Print tables, and stored runs as rows; what is said on one line about an outcome.

Without rich, unless something is printed on a terminal: a program that reads a pipe need not wait for its import.
"""

import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from run_specialist import budget as units
from run_specialist.budget import Kind, dollars
from run_specialist.cli.console import has_colours, is_terminal, one_line, print_line, print_styled, printable, wrapped
from run_specialist.store.location import place, shown

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from run_specialist.record.outcome import Outcome
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
STATUSES = {"answered": "green", "landed": "green", "partial": "yellow"}
"""Colors of statuses of runs with an answer; all others are red."""
_STYLES = STATUSES | {
    "ok": "green",
    "warning": "yellow",
    "error": "red",
    "blocked": "yellow",
    "default": "bright_black",
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
        heading = [{one: one for one in self._widths}] if head else []
        if self._width == _UNLIMITED:
            # For a program: uncut, and without styles, which take a while to import.
            from rich.cells import cell_len  # noqa: PLC0415 - only tables need it

            padded = (
                (cells[one] + " " * (width - cell_len(cells[one]) + GAP) for one, width in self._widths.items())
                for cells in (*heading, *rows)
            )
            text = "\n".join("".join(cells).rstrip() for cells in padded)
            is_unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
            print_styled(text if is_unicode else text.translate(_ASCII))
            return
        from rich.text import Text  # noqa: PLC0415 - only a terminal needs it

        print_rendered(Text("\n", no_wrap=True).join([*map(self._line, heading), *map(self._row, rows)]), _UNLIMITED)

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
            text = printable(cells[head])
            cell = Text(text, _STYLES.get(text, ""))
            if head == [*self._widths][-1]:
                cell.truncate(max(self._width - line.cell_len, 1), overflow="ellipsis")
                if self._highlight:
                    cell.highlight_regex(self._highlight, "bold yellow")
            elif line:
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
    from run_specialist.views.page import iso  # noqa: PLC0415 - fast `specialists list`

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


FLAGS = {kind: f"--{kind.key.replace('_', '-')}" for kind in Kind}
"""The option for each kind of limit."""


def summary(outcome: "Outcome") -> str:
    """Return status, calls used and their limit, tokens by kind, cost, cost of the landing, time, on one line."""
    calls, usage, landing = outcome.tool_calls, outcome.usage, outcome.landing
    parts = [outcome.status, _calls(outcome)]
    parts += [f"{number} {kind}" for number, kind in ((calls.failed, "failed"), (calls.skipped, "skipped")) if number]
    if usage.total_tokens:
        kinds = {
            "in": usage.input_tokens,
            "cache read": usage.cache_read_input_tokens,
            "cache write": usage.cache_creation_input_tokens,
            "out": usage.output_tokens,
        }
        by_kind = ", ".join(f"{tokens:,} {name}" for name, tokens in kinds.items() if tokens)
        parts.append(f"{usage.total_tokens:,} tokens ({by_kind})")
        parts.append("price unknown" if outcome.cost_usd is None else dollars(outcome.cost_usd))
    if landing and landing.usage.total_tokens:
        parts.append(f"landing alone {', '.join(_spent(landing.usage.total_tokens, landing.cost_usd))}")
    parts.append(f"{outcome.duration_s:.1f} s")
    looked_up = [one.verified for one in outcome.evidence if one.verified is not None]
    if outcome.support:
        borne_out, checked = len(outcome.support) - len(outcome.doubtful), len(outcome.support)
        parts.append(f"borne out: {borne_out} of {units.counted(checked, 'sentence')}")
    elif looked_up and outcome.is_offline:
        parts.append(f"{units.counted(len(looked_up), 'quote')}, not judged by a model")
    elif looked_up and outcome.status in ("answered", "landed"):
        parts.append(f"{sum(looked_up)} of {len(looked_up)} quotes found")
    if children := outcome.children:
        # The usage of each child run includes its own children.
        costs = [one.cost_usd for one in children if one.cost_usd is not None]
        cost = sum(costs) if len(costs) == len(children) else None
        spent = _spent(sum(one.usage.total_tokens for one in children), cost)
        of_children = ", ".join([units.amount(Kind.TOOL_CALLS, sum(one.tool_calls for one in children)), *spent])
        parts.append(f"{units.counted(len(children), 'specialist')} asked: {of_children}, included")
    return " · ".join(parts)


def brief(outcome: "Outcome") -> str:
    """Return a shorter summary for a child run: calls, tokens, cost, time."""
    spent = _spent(outcome.usage.total_tokens, outcome.cost_usd)
    return " · ".join([_calls(outcome), *spent, f"{outcome.duration_s:.1f} s"])


def _spent(tokens: int, cost_usd: float | None) -> list[str]:
    """Return tokens and cost as texts; none without tokens, and no cost if it is unknown."""
    return [f"{tokens:,} tokens", *([] if cost_usd is None else [dollars(cost_usd)])] if tokens else []


def _calls(outcome: "Outcome") -> str:
    calls = outcome.tool_calls
    if calls.limit is None:
        return units.amount(Kind.TOOL_CALLS, calls.used)
    return f"{calls.used} of {units.of(Kind.TOOL_CALLS, calls.limit)}"


def resume_command(outcome: "Outcome", store: str | None) -> str:
    """Return the command that resumes a run with a doubled limit, or with double the usage if that is more.

    store: the value of `--store`; None if it was not given.
    """
    flags = []
    if outcome.landing:
        kind = Kind(outcome.landing.reason)
        spent = outcome.limits[kind]
        if spent.limit is not None:
            total = 2 * max(spent.limit, spent.used or 0)
            flags = [FLAGS[kind], f"{total:.15g}" if total else "none"]
    return run_command("resume", outcome, store, *flags)


def run_command(name: str, outcome: "Outcome", store: str | None, *flags: str) -> str:
    """Return a command of `specialists` about a run.

    store: as for `resume_command`.
    """
    return shlex.join(["specialists", name, outcome.run_id, *flags, *(["--store", store] if store else [])])


def changed_files(outcome: "Outcome", undo: str | None) -> str:
    """Return what a run has done to files, and how to undo it, on one line; empty if it changed none.

    undo: the command that undoes it; None if the run is not stored.
    """
    counts = Counter(one.change for one in outcome.changes)
    if not counts:
        return ""
    parts = ", ".join(f"{units.counted(number, 'file')} {change}" for change, number in sorted(counts.items()))
    lasting = sum(not one.undoable for one in outcome.changes)
    if undo is None or lasting == len(outcome.changes):
        return f"{parts}; this cannot be undone"
    kept = f", but {lasting} of them cannot be undone" if lasting else ""
    return f"{parts}; to undo: {undo}{kept}"


def limit_hint(outcome: "Outcome", resume: str | None) -> str | None:
    """Return which limit ended the run and how to continue; None if no limit was reached.

    resume: the command that resumes the run; None if the run is not stored.
    """
    landing = outcome.landing
    if landing is None:
        return None
    kind = Kind(landing.reason)
    limit = outcome.limits[kind].limit
    if limit is None:
        return "the model's context window was full; ask for less, or lower summarize_at to summarize earlier"
    advice = f"to resume: {resume}" if resume else f"raise it with {FLAGS[kind]} for a longer run"
    return f"the limit of {units.amount(kind, limit)} was reached; {advice}"
