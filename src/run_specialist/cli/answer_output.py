"""Print the answer of a run: unchanged into a pipe, rendered on a terminal."""

from typing import TYPE_CHECKING, TextIO

from run_specialist.cli.console import is_terminal, print_line

if TYPE_CHECKING:
    from run_specialist.record.outcome import Outcome


def print_answer(outcome: "Outcome", *, raw: bool, alone: bool, to: TextIO | None = None) -> None:
    """Print the answer; on a terminal rendered, followed by its evidence and gaps.

    raw: print it unchanged, even on a terminal.
    alone: omit evidence and gaps.
    to: a file, which gets the answer unchanged; None for standard output.
    """
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
