"""Show answers and transcripts on a terminal."""

import json
import os
import re
import shutil
import signal
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from markdown_it.tree import SyntaxTreeNode
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from run_specialist.budget import counted
from run_specialist.cli import console
from run_specialist.cli.tables import local, print_rendered, rendered_lines
from run_specialist.loop.evidence import is_salvaged
from run_specialist.record.outcome import Evidence, Outcome, Support
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.tools.respond import Response
from run_specialist.views.markdown import DOUBT, NOT_BORNE_OUT, opens, parse, shown_address, without_quotes

if TYPE_CHECKING:
    from run_specialist.store.stored import Row, StoredRun


# Maximum width of prose, because longer lines are hard to read [columns].
_MOST_WIDTH = 100
# Minimum width of indented text, even if its lines then exceed a narrower terminal [columns].
_LEAST_WIDTH = 8


class Prefixed:
    """A renderable with one text before its first line, and another before each further line."""

    def __init__(self, content: RenderableType, first: str, rest: str | None = None, style: str = "") -> None:
        """Put texts before the lines of `content`.

        rest: None = as many spaces as `first` is wide.
        style: of both texts.
        """
        self._content, self._first, self._rest, self._style = content, first, rest, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = Segment(self._first, console.get_style(self._style or "none"))
        rest = Segment(" " * first.cell_length if self._rest is None else self._rest, first.style)
        width = max(options.max_width - first.cell_length, _LEAST_WIDTH)
        inner = options.update(width=width, height=None)
        lines = console.render_lines(self._content, inner, pad=False)
        for number, line in enumerate(lines):
            yield rest if number else first
            yield from line
            yield Segment.line()


_INDENT = "  "
_HEAD, _CALL = "head", "tool_call"


def print_transcript(run: "StoredRun", rows: Sequence["Row"], copied: int) -> None:
    """Print the conversation of a run: on a terminal rendered and through the pager, else as text.

    copied: number of rows at the beginning that a fork has copied from another run.
    """
    rendered = console.is_terminal()
    shown: list[RenderableType] = []
    before = _HEAD
    for kind, label, row in _entries(run, rows, copied):
        # The lines of the head, and the calls of a turn, are not separated.
        if kind not in {_HEAD, _CALL} or kind != before:
            shown.append("")
        before = kind
        if rendered:
            shown.append(_rendered(kind, label, row))
        elif kind == _CALL:
            shown.append(f"{label}  {row['name']} {json.dumps(row['arguments'], ensure_ascii=False)}")
        else:
            shown += [label, *(f"{_INDENT}{line}".rstrip() for line in _content(row).split("\n") if row)]
    if rendered:
        page("\n".join(rendered_lines(Group(*shown))))
    else:
        console.print_line("\n".join(map(str, shown)))


def _entries(run: "StoredRun", rows: Sequence["Row"], copied: int) -> Iterator[tuple[str, str, "Row"]]:
    """Yield the kind, the label and the row of each message, call and result; the lines of the head have no row."""
    yield _HEAD, f"{run.run_id}  {run.specialist}  {run.status}  {local(run.started_at)}", {}
    if run.question != run.first_question:
        yield _HEAD, f"newest question: {console.one_line(run.question)}", {}
    if run.parent_id:
        yield _HEAD, f"asked by {run.parent_id}", {}
    if run.forked_from:
        yield _HEAD, f"forked from {run.forked_from} after {counted(run.forked_at or 0, 'turn')}", {}
    for one in run.children:
        yield _HEAD, f"asked {one.run_id}  {one.specialist}  {one.status}", {}
    numbers: dict[object, int] = {}
    calls = 0
    for index, row in enumerate(rows):
        if index == copied and run.forked_from:
            yield "", "the copied turns end here", {}
        label = kind = row["kind"]
        if kind == _CALL:
            calls += 1
            numbers[row["id"]] = calls
            label = f"call {calls}"
        elif kind == "tool_result":
            number = f" {numbers[row['id']]}" if row["id"] in numbers else ""
            label = f"result{number}{', an error' if row['is_error'] else ''}"
        yield kind, label, row


def _content(row: "Row") -> str:
    return str(row.get("content", row.get("text", "")))


def _rendered(kind: str, label: str, row: "Row") -> RenderableType:
    if kind != _CALL:
        heading = Text(console.printable(label), "dim", overflow="fold")
        text = markdown(_content(row)) if kind == "assistant" else written(_content(row))
        return Group(heading, Prefixed(text, _INDENT)) if row else heading
    arguments = row["arguments"]
    text = Text(console.printable(row["name"]), "bold", overflow="fold")
    if row["name"] == RESPOND and isinstance(arguments, Mapping) and isinstance(arguments.get("answer"), str):
        response = Response.parse(arguments)
        # Without marks: only the outcome knows which quotes were found.
        quotes = [Evidence(one.source, one.quote, verified=None) for one in response.evidence]
        answer = without_quotes(response.answer, ((one.source, one.quote) for one in quotes))
        blocks = [markdown(answer), *evidence_block(quotes, marked=False, above=answer), *gaps_block(response.gaps)]
        return Group(Prefixed(text, f"{label}  ", style="dim"), Prefixed(apart(blocks), _INDENT))
    text.append(f" {console.printable(json.dumps(arguments, ensure_ascii=False))}", "not bold")
    return Prefixed(text, f"{label}  ", style="dim")


NOT_FOUND = "not found in what was read"
# Sources whose line breaks only wrap text.
_PROSE = re.compile(r"\.(md|markdown|txt|rst|adoc)\b", re.IGNORECASE)
# Line breaks in prose that must be kept: before lists, headings, tables, code and blank lines.
_NEW_LINE = re.compile(r"\n(?=[ \t]*([-*+#>|]|[0-9]+[.)] |$)|[ \t]{4})", re.MULTILINE)


def evidence_block(
    evidence: Sequence[Evidence], *, marked: bool = True, numbered: bool = False, above: str = ""
) -> Iterator[RenderableType]:
    """Yield a heading, and each quote with its source and a mark, explained if the quote was not found.

    above: the text above; if it ends with a colon, it is the heading.
    marked: False = it is unknown yet which quotes were looked up.
    numbered: whether the answer names the quotes by number.
    """
    if evidence:
        yield from () if above.endswith(":") else [_heading("Evidence")]
        for number, one in enumerate(evidence, 1):
            yield _piece(one, f"[{number}] " if numbered else "", marked=marked)


def gaps_block(gaps: Iterable[str]) -> Iterator[RenderableType]:
    """Yield a heading, and the things that the specialist looked for without finding them."""
    return _list_block("Gaps", gaps)


def _list_block(heading: str, items: Iterable[str]) -> Iterator[RenderableType]:
    shown = [Prefixed(written(item.strip("\n")), "• ") for item in items if item.strip()]
    if shown:
        yield _heading(heading)
        yield Group(*shown)


def _heading(text: str) -> Text:
    return Text(text if console.has_colours() else f"{text}:", "bold")


def _piece(one: Evidence, number: str, *, marked: bool) -> RenderableType:
    mark, color, words = {
        True: ("✓", "green", ""),
        False: ("✗", "red", NOT_FOUND),
        None: ("•", "dim", "not looked up" if marked else ""),
    }[one.verified]
    source = Text(console.printable(" ".join(one.source.split())) or "no source given", "cyan", overflow="fold")
    line = Text.assemble(source, "  " if words else "", (words, color))
    if _PROSE.search(one.source):
        # Without the line breaks of its file, prose can be wrapped again.
        quote = _NEW_LINE.sub("\0", one.quote).replace("\n", " ").replace("\0", "\n")
    else:
        # The first line of a quote of code has lost its indentation, so the others lose what they share.
        first, _, further = one.quote.partition("\n")
        block = textwrap.dedent(further)
        if first.rstrip().endswith((":", "{", "(", "[")) and block[:1].strip():
            block = textwrap.indent(block, " " * 4)
        quote = f"{first}\n{block}"
    head = Prefixed(line, f"{mark} {number}", style=color)
    return Group(head, Prefixed(written(quote.strip("\n")), "    ")) if quote.strip() else head


# Blocks that use the whole width of the terminal.
_WIDE = ("table", "fence", "code_block")
# Longer code is shown without colors, which take time [characters].
_LONGEST_CODE = 10_000


def markdown(text: str, doubtful: Sequence[Support] = ()) -> RenderableType:
    """Return a Markdown text as a renderable; unrendered if parsing takes too long or fails.

    doubtful: sentences to be marked.
    """
    tokens = parse(text, console.printable, doubtful)
    if tokens is None:
        return written(text)
    blocks = ((node.type, _block(node)) for node in SyntaxTreeNode(tokens).children)
    return apart(block if kind in _WIDE else Constrain(block, _MOST_WIDTH) for kind, block in blocks)


def written(text: str) -> Text:
    """Return a text unrendered, wrapped at words."""
    return Text(console.printable(text), overflow="fold")


def apart(blocks: Iterable[RenderableType]) -> Group:
    """Return blocks with a blank line between them."""
    parts: list[RenderableType] = []
    for block in blocks:
        parts += [Text(), block] if parts else [block]
    return Group(*parts)


def _inside(node: SyntaxTreeNode) -> RenderableType:
    """Return the blocks of a list item or a quotation."""
    blocks = [_block(child) for child in node.children]
    tight = any(child.type == "paragraph" and child.hidden for child in node.children)
    return Group(*blocks) if tight else apart(blocks)


def _block(node: SyntaxTreeNode) -> RenderableType:
    match node.type:
        case "paragraph":
            block: RenderableType = inline(node.children[0])
        case "heading":
            level = int(node.tag[1:])
            text = inline(node.children[0], "bold underline" if level == 1 else "bold")
            # Without a style, the marks show that it is a heading.
            block = text if console.has_colours() else Prefixed(text, "#" * level + " ")
        case "fence" | "code_block":
            block = Prefixed(_code(node), "    ")
        case "blockquote":
            bar = "│ "
            block = Prefixed(_inside(node), bar, bar, "dim")
        case "bullet_list" | "ordered_list":
            block = _list(node)
        case "table":
            block = _table(node)
        case "hr":
            block = Rule(characters="─", style="dim")
        case _:
            block = Text(node.content, overflow="fold")
    return block


def _code(node: SyntaxTreeNode) -> Text:
    code = node.content.rstrip("\n")
    language = node.info.split()[0] if node.info.split() else ""
    if not language or not console.has_colours() or len(code) > _LONGEST_CODE:
        return Text(code, CODE, overflow="fold")
    from rich.syntax import Syntax  # noqa: PLC0415 - brings Pygments

    # The colors are those of the terminal, so that they suit its background.
    highlighted = Syntax(code, language, theme="ansi_dark", background_color="default").highlight(code)
    highlighted.rstrip()
    highlighted.overflow, highlighted.no_wrap = "fold", False
    return highlighted


def _list(node: SyntaxTreeNode) -> RenderableType:
    items = node.children
    if node.type == "bullet_list":
        marks = ["• "] * len(items)
    else:
        first = int(node.attrs.get("start", 1))
        width = len(str(first + len(items) - 1))
        marks = [f"{number:>{width}}. " for number in range(first, first + len(items))]
    rows = [Prefixed(_inside(item), mark) for item, mark in zip(items, marks, strict=True)]
    loose = any(child.type == "paragraph" and not child.hidden for item in items for child in item.children)
    return apart(rows) if loose else Group(*rows)


def _table(node: SyntaxTreeNode) -> Table:
    head, *rows = [row for part in node.children for row in part.children]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), border_style="dim")
    for cell in head.children:
        side = str(cell.attrs.get("style", "")).removeprefix("text-align:")
        justify: JustifyMethod = "right" if side == "right" else "center" if side == "center" else "left"
        table.add_column(inline(cell.children[0]), header_style="bold", justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(inline(cell.children[0]) for cell in row.children))
    return table


CODE = "cyan"
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


def inline(node: SyntaxTreeNode, style: str = "") -> Text:
    """Return the text of a block.

    style: of all of it.
    """
    text = Text(style=style, overflow="fold")
    for child in node.children:
        _add(text, child)
    begin, end = DOUBT
    if begin not in text.plain:
        return text
    shown = Text(style=style, overflow="fold")
    for piece in text.split(begin, allow_blank=True):
        doubtful, *rest = piece.split(end, allow_blank=True)
        if rest:
            doubtful.stylize("dim")
            shown.append_text(doubtful).append(" ?", "yellow").append_text(rest[0])
        else:
            shown.append_text(piece)
    return shown


def _add(text: Text, node: SyntaxTreeNode) -> None:
    match node.type:
        case "softbreak":
            text.append(" ")
        case "hardbreak":
            text.append("\n")
        case "code_inline":
            # Without a style, the marks show where a name begins and ends.
            text.append(node.content if console.has_colours() else f"`{node.content}`", CODE)
        case "link" | "image":
            _add_link(text, node)
        case _ if node.children:
            start = len(text)
            for child in node.children:
                _add(text, child)
            if node.type in _STYLES:
                text.stylize(_STYLES[node.type], start)
        case _:
            text.append(node.content)


def _add_link(text: Text, node: SyntaxTreeNode) -> None:
    """Add the text of a link or an image and then its address; only the address can be clicked."""
    start = len(text)
    for child in node.children:
        _add(text, child)
    label = text.plain[start:]
    url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
    clickable = Style(underline=True, link=url) if opens(url) else Style(dim=True)
    address = shown_address(url, label, console.printable)
    if address:
        text.append(" (" if label else "").append(address, clickable).append(")" if label else "")
    elif opens(url):
        text.stylize(clickable, start)


def page(text: str) -> None:
    """Print a text on a terminal: through PAGER, or `less`, if it is longer than the screen.

    text: its untrusted parts must have passed `printable`.
    """
    fits = text.count("\n") + 1 < shutil.get_terminal_size().lines
    is_dumb = os.environ.get("TERM", "").lower() in {"dumb", "unknown"}
    if fits or is_dumb or os.environ.get("PAGER", "less").strip() in {"", "cat"}:
        console.print_styled(text)
        return
    import pydoc  # noqa: PLC0415 - only a long text needs it

    # Show colors, leave the text on the screen, exit immediately if it fits.
    os.environ.update({"LESS": "FRX"} | os.environ)
    # Ctrl-C belongs to the pager, where it stops a search. A handler, unlike SIG_IGN, is not inherited by the pager.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        pydoc.pager(f"{text}\n")
    finally:
        signal.signal(signal.SIGINT, before)


def print_rendered_answer(outcome: Outcome, *, alone: bool) -> None:
    """Print the answer, if there is one.

    alone: omit evidence and gaps.
    """
    evidence = () if alone else outcome.evidence
    text = ""
    blocks: list[RenderableType] = []
    # Structured and salvaged answers are not Markdown.
    if outcome.output is not None:
        blocks.append(written(console.as_json_text(outcome.output)))
    if is_salvaged(outcome.answer):
        # It contains the results that its evidence quotes.
        evidence = tuple(one for one in evidence if one.quote not in outcome.answer)
        if not blocks:
            blocks.append(written(outcome.answer))
    elif not blocks:
        text = without_quotes(outcome.answer, ((one.source, one.quote) for one in evidence)).strip("\n")
        blocks += [markdown(text, () if alone else outcome.doubtful)] if text else []
    if not alone:
        marks = (f"[{number}]" for number in range(1, len(evidence) + 1))
        below = (
            *evidence_block(evidence, numbered=any(mark in outcome.answer for mark in marks), above=text),
            *_list_block(NOT_BORNE_OUT, map(str, outcome.doubtful)),
            *gaps_block(outcome.gaps),
        )
        blocks += [Constrain(block, _MOST_WIDTH) for block in below]
    if blocks:
        print_rendered(apart(blocks))
