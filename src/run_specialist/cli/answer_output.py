"""Print the answer of a run: unchanged into a pipe, rendered on a terminal."""

from typing import TYPE_CHECKING, TextIO

from run_specialist.cli.console import is_terminal, print_line, say

if TYPE_CHECKING:
    from run_specialist.record.outcome import Outcome


MOST_LINES, MOST_COLUMNS = 16, 100
"""What is printed of the results of an interrupted run, so that they and the notes about the run fit on a screen."""


def print_answer(
    outcome: "Outcome", *, raw: bool, alone: bool, to: TextIO | None = None, transcript: str | None = None
) -> None:
    """Print the answer; on a terminal rendered, followed by its evidence and gaps.

    Of an interrupted run, only the beginning of what was gathered is printed.
    raw: print it unchanged, even on a terminal.
    alone: omit evidence and gaps.
    to: a file, which gets the answer unchanged; None for standard output.
    transcript: the command that prints the whole run; None if it is not stored.
    """
    if outcome.status == "aborted" and not raw and to is None:
        lines = outcome.answer.splitlines()
        for line in lines[:MOST_LINES]:
            print_line(line if len(line) <= MOST_COLUMNS else f"{line[: MOST_COLUMNS - 1]}…")
        if len(lines) > MOST_LINES or any(len(line) > MOST_COLUMNS for line in lines):
            rest = (
                f"to see everything: {transcript}" if transcript else "the run is not stored; --raw prints everything"
            )
            left = max(len(lines) - MOST_LINES, 0)
            say(f"{f'{left:,} more lines; ' if left else ''}{rest}", command=transcript)
        return
    if raw or to is not None or not is_terminal():
        if outcome.answer:
            print_line(outcome.answer, to)
        return
    from run_specialist.cli.rendered_answer import print_rendered_answer  # noqa: PLC0415 - only a terminal needs it

    print_rendered_answer(outcome, alone=alone)


def print_patch(outcome: "Outcome", to: TextIO | None = None) -> None:
    """Print the changes that a dry run would have made, below the answer or into a separate file.

    to: a file; None for standard output.
    """
    from run_specialist.cli.diff_lines import print_diff  # noqa: PLC0415 - only a dry run needs it

    if not outcome.patch:
        return
    if to is not None:
        to.write(outcome.patch)
        return
    if outcome.answer:
        print_line("")
    print_diff(outcome.patch)
