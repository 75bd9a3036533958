"""Show a transcript on a terminal: wrapped at words, answers rendered, through a pager if it is long."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from run_specialist.cli.console import printable
from run_specialist.cli.evidence_block import evidence_block, gaps_block
from run_specialist.cli.markdown_text import apart, markdown, written
from run_specialist.cli.pager import page
from run_specialist.cli.screen import Prefixed, Screen
from run_specialist.cli.show_runs import END_OF_COPY, forked_line, local
from run_specialist.cli.table import rendered_lines
from run_specialist.record.outcome import Evidence
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response
from run_specialist.views.answer_markdown import without_quotes

if TYPE_CHECKING:
    from run_specialist.store.conversation import Row
    from run_specialist.store.stored import StoredRun

_INDENT = "  "


def show_transcript(run: "StoredRun", rows: Sequence["Row"], copied: int = 0) -> None:
    """Show the conversation of a run on the terminal.

    copied: number of rows at the beginning that a fork has copied from another run.
    """
    screen = Screen.of_stdout()
    numbers: dict[object, int] = {}
    end = [_label(END_OF_COPY)] if run.forked_from else []
    blocks = [*_blocks(rows[:copied], numbers, screen), *end, *_blocks(rows[copied:], numbers, screen)]
    page("\n".join(rendered_lines(apart([Group(*_head(run)), *blocks]))))


def _head(run: "StoredRun") -> Iterator[Text]:
    yield _label(f"{run.run_id}  {run.specialist}  {run.status}  {local(run.started_at)}")
    if run.parent_id:
        yield _label(f"asked by {run.parent_id}")
    if run.forked_from:
        yield _label(forked_line(run))
    for one in run.children:
        yield _label(f"asked {one.run_id}  {one.specialist}  {one.status}")


def _blocks(rows: Sequence["Row"], numbers: dict[object, int], screen: Screen) -> Iterator[RenderableType]:
    """Yield a block for each message and each result; the calls of a turn are one block.

    numbers: numbers of the calls before, by id; extended with those of these rows.
    """
    calls = len(numbers)
    for is_call, group in groupby(rows, key=lambda row: row["kind"] == "tool_call"):
        if not is_call:
            yield from (_message(row, numbers, screen) for row in group)
            continue
        lines: list[RenderableType] = []
        for row in group:
            calls += 1
            numbers[row["id"]] = calls
            lines.append(_call(row, calls, screen))
        yield Group(*lines)


def _call(row: "Row", number: int, screen: Screen) -> RenderableType:
    arguments = row["arguments"]
    label = Prefixed(Text(printable(row["name"]), "bold"), f"call {number}  ", style="dim")
    if row["name"] == RESPOND and isinstance(arguments, Mapping) and isinstance(arguments.get("answer"), str):
        return Group(label, Prefixed(_answer(arguments, screen), _INDENT))
    text = Text(overflow="fold").append(printable(row["name"]), "bold")
    text.append(f" {printable(json.dumps(arguments, ensure_ascii=False))}")
    return Prefixed(text, f"call {number}  ", style="dim")


def _answer(arguments: Mapping[str, object], screen: Screen) -> RenderableType:
    """Return the arguments of `respond` as an answer, without marks: only the outcome knows which quotes were found."""
    response = Response.parse(arguments)
    quotes = [Evidence(one.source, one.quote, verified=None) for one in response.evidence]
    answer = markdown(without_quotes(response.answer, ((one.source, one.quote) for one in quotes)), screen)
    return apart([answer, *evidence_block(quotes, screen, marked=False), *gaps_block(response.gaps, screen)])


def _message(row: "Row", numbers: Mapping[object, int], screen: Screen) -> RenderableType:
    match row["kind"]:
        case "tool_result":
            number = f" {numbers[row['id']]}" if row["id"] in numbers else ""
            label = f"result{number}{', an error' if row['is_error'] else ''}"
            return Group(_label(label), Prefixed(written(row["content"]), _INDENT))
        case "assistant":
            return Group(_label("assistant"), Prefixed(markdown(row["text"], screen), _INDENT))
        case kind:
            return Group(_label(kind), Prefixed(written(row["text"]), _INDENT))


def _label(text: str) -> Text:
    return Text(printable(text), "dim", overflow="fold")
