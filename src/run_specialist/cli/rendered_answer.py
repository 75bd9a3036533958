"""Print the answer of a run on a terminal: its text, then its evidence and gaps."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.constrain import Constrain

from run_specialist.cli.console import as_json_text
from run_specialist.cli.evidence_block import evidence_block, gaps_block
from run_specialist.cli.markdown_text import apart, markdown, written
from run_specialist.cli.screen import MOST_WIDTH, Screen
from run_specialist.cli.table import print_rendered
from run_specialist.loop.evidence import is_salvaged
from run_specialist.record.outcome import Outcome
from run_specialist.views.answer_markdown import without_quotes


def print_rendered_answer(outcome: Outcome, *, alone: bool) -> None:
    """Print the answer, if there is one.

    alone: omit evidence and gaps.
    """
    screen = Screen.of_stdout()
    blocks = [*(_answer(outcome, screen) if alone else _answer_and_evidence(outcome, screen))]
    if blocks:
        print_rendered(apart(blocks))


def _answer_and_evidence(outcome: Outcome, screen: Screen) -> Iterator[RenderableType]:
    evidence = outcome.evidence
    if is_salvaged(outcome.answer):
        # It contains the results that its evidence quotes.
        evidence = tuple(one for one in evidence if one.quote not in outcome.answer)
    yield from _answer(outcome, screen, [(one.source, one.quote) for one in evidence])
    for block in (*evidence_block(evidence, screen), *gaps_block(outcome.gaps, screen)):
        yield Constrain(block, MOST_WIDTH)


def _answer(outcome: Outcome, screen: Screen, quotes: list[tuple[str, str]] | None = None) -> Iterator[RenderableType]:
    """Yield the answer; structured and salvaged answers unrendered, because they are not Markdown.

    quotes: source and quote of the evidence that is shown below the answer.
    """
    if outcome.output is not None:
        yield written(as_json_text(outcome.output))
    elif is_salvaged(outcome.answer):
        yield written(outcome.answer)
    elif text := without_quotes(outcome.answer, quotes or ()).strip("\n"):
        yield markdown(text, screen)
