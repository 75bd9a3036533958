"""`specialists runs --follow`: print runs as they begin, and again when their status changes, until Ctrl-C."""

import shutil
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from run_specialist.cli.console import is_terminal, print_json, print_line, print_styled, printable, say
from run_specialist.cli.runs_table import (
    fitting,
    highlighted,
    lines_below,
    needs_own_line,
    pattern_of,
    question_of,
    run_cells,
)
from run_specialist.cli.show_runs import as_json
from run_specialist.cli.stored_run_flags import open_store
from run_specialist.cli.table import GAP, cell_width, shortened
from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.selection import Selection
    from run_specialist.store.stored import ListedRun

PAUSE = 0.5
"""Interval at which the store is polled [s]."""
LOOK_BACK = 3_600.0
"""Maximum difference between the clocks of this process and of those that write the store [s]."""

_WIDTHS = {
    "RUN": 26,
    "SPECIALIST": 20,
    "STATUS": 11,
    "MODEL": 20,
    "CALLS": 5,
    "COST": 7,
    "DURATION": 8,
    "STARTED": 12,
    "PROJECT": 24,
}
"""Fixed widths of the columns on a terminal, because later rows are unknown."""


def follow(store: str | None, selection: "Selection", limit: int, *, json_: bool, projects: bool) -> NoReturn:
    """Print the newest selected runs, oldest first, then each that begins, is resumed or ends; does not return.

    limit: how many at the beginning, as for `Store.trees`.
    """
    printer = _Printer(selection.words, json_=json_, projects=projects)
    since = time.time() - LOOK_BACK
    with _wait_for_store(store) as opened:
        # Runs that are not among the newest ones are not printed before they change. They are asked for first:
        # a run that begins in between is printed, now or at the next look.
        earlier = opened.active_since(selection, since)
        printer.print(opened.trees(selection, limit)[::-1])
        printer.skip(earlier)
        while True:
            time.sleep(PAUSE)
            printer.print(opened.active_since(selection, since))


def _wait_for_store(store: str | None) -> "Store":
    """Open the store; if it does not exist yet, wait for the first run."""
    has_said = False
    while True:
        try:
            return open_store(store)
        except StoreMissing as missing:
            if not has_said:
                say(str(missing))
            has_said = True
            time.sleep(PAUSE)


class _Printer:
    """Prints each state of a run once."""

    def __init__(self, words: str, *, json_: bool, projects: bool) -> None:
        self._json = json_
        self._projects = projects
        self._words = words
        self._states: dict[str, tuple[str, float | None]] = {}
        """Status and end of each run, as printed last."""
        self._depths: dict[str, int] = {}

    def skip(self, found: Sequence["ListedRun"]) -> None:
        """Mark the current state of runs as already printed."""
        for run in found:
            self._states.setdefault(run.run_id, (run.status, run.ended_at))

    def print(self, found: Sequence["ListedRun"]) -> None:
        """Print the runs whose state has changed.

        found: oldest first, so that children follow their parents.
        """
        for run in found:
            if self._states.get(run.run_id) == (run.status, run.ended_at):
                continue
            self._states[run.run_id] = (run.status, run.ended_at)
            if self._json:
                print_json(as_json(run), indent=None)
            else:
                self._print_row(run)

    def _print_row(self, run: "ListedRun") -> None:
        if not self._depths:
            self._print_head()
        depth = self._depths[run.run_id] = self._depths.get(run.parent_id or "", -1) + 1
        cells, question = run_cells(run, depth, projects=self._projects), question_of(run, depth)
        if not is_terminal():
            print_line((" " * GAP).join([*(cell.text for cell in cells.values()), question]))
            return
        width = shutil.get_terminal_size().columns
        columns = fitting({head: _WIDTHS[head] for head in cells}, width)
        row = (" " * GAP).join(_padded(cells[head].text, 0 if head == "RUN" else _WIDTHS[head]) for head in columns)
        below = lines_below(cells, columns, question, width, apart=needs_own_line(cells, columns, width))
        pattern = pattern_of(self._words)
        print_styled("\n".join([row.rstrip(), *(highlighted(line, pattern) for line in below)]))

    def _print_head(self) -> None:
        heads = [head for head in _WIDTHS if self._projects or head != "PROJECT"]
        if not is_terminal():
            print_line((" " * GAP).join([*heads, "QUESTION"]))
            return
        columns = fitting({head: _WIDTHS[head] for head in heads}, shutil.get_terminal_size().columns)
        print_line((" " * GAP).join(_padded(head, _WIDTHS[head]) for head in columns).rstrip())


def _padded(text: str, width: int) -> str:
    """Return a printable text that fills a column; cut if it is wider, unless the width is 0."""
    text = printable(text)
    if not width:
        return text + " " * (_WIDTHS["RUN"] - cell_width(text))
    cut = shortened(text, width)
    return cut + " " * (width - cell_width(cut))
