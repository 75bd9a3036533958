"""Print the answer of a run: as it is in a pipe, readable on a terminal."""

from typing import TYPE_CHECKING

from run_specialist.cli.console import as_json_text, is_terminal, print_line
from run_specialist.loop.evidence import is_salvaged
from run_specialist.views.answer_markdown import without_quotes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from run_specialist.cli.screen import Screen
    from run_specialist.record.outcome import Outcome


def print_answer(outcome: "Outcome", *, raw: bool, alone: bool) -> None:
    """Print the answer; on a terminal rendered, followed by its evidence and gaps.

    raw: print it on a terminal as it is, too.
    alone: omit evidence and gaps.
    """
    if raw or not is_terminal():
        if outcome.answer:
            print_line(outcome.answer)
        return
    from run_specialist.cli.markdown_text import apart  # noqa: PLC0415 - only a terminal needs it
    from run_specialist.cli.screen import Screen  # noqa: PLC0415 - same
    from run_specialist.cli.table import print_rendered  # noqa: PLC0415 - same

    blocks = _blocks(outcome, Screen.of_stdout(), alone=alone)
    if blocks:
        print_rendered(apart(blocks))


def _blocks(outcome: "Outcome", screen: "Screen", *, alone: bool) -> list["RenderableType"]:
    from run_specialist.cli.evidence_block import evidence_block, gaps_block  # noqa: PLC0415 - only a terminal needs it

    if alone:
        return _answer(outcome.answer, outcome.output, screen)
    evidence = outcome.evidence
    answer = outcome.answer
    if is_salvaged(answer):
        # It contains the results that its evidence quotes.
        evidence = tuple(one for one in evidence if one.quote not in answer)
    else:
        answer = without_quotes(answer, ((one.source, one.quote) for one in evidence))
    blocks = _answer(answer, outcome.output, screen)
    return [*blocks, *evidence_block(evidence, screen), *gaps_block(outcome.gaps, screen)]


def _answer(text: str, output: object, screen: "Screen") -> list["RenderableType"]:
    from run_specialist.cli.markdown_text import markdown, written  # noqa: PLC0415 - only a terminal needs it

    if output is not None:
        return [written(as_json_text(output))]
    if is_salvaged(text):
        return [written(text)]
    return [markdown(text, screen)] if text.strip() else []
