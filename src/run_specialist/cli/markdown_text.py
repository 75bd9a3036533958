"""Render Markdown on a terminal: wrapped at words, with tables, lists and code; it cannot control the terminal."""

from collections.abc import Iterable, Sequence

from markdown_it.tree import SyntaxTreeNode
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from run_specialist.cli.console import printable
from run_specialist.cli.markdown_inline import CODE, inline
from run_specialist.cli.screen import MOST_WIDTH, Prefixed, Screen
from run_specialist.views.answer_markdown import parse

_WIDE = ("table", "fence", "code_block")
"""Blocks that use the whole width of the terminal."""
_LONGEST_WORD = 20
"""Longer words may be broken in a table [columns]."""
_GAP = 3
"""Columns between the columns of a table."""
_LONGEST_CODE = 10_000
"""Longer code is shown without colors, which take time [characters]."""


def markdown(text: str, screen: Screen) -> RenderableType:
    """Return a Markdown text as a renderable; unrendered if parsing takes too long or fails."""
    tokens = parse(text, printable)
    if tokens is None:
        return written(text)
    return apart(_limited(node, screen) for node in SyntaxTreeNode(tokens).children)


def written(text: str) -> Text:
    """Return a text unrendered, wrapped at words."""
    return Text(printable(text), overflow="fold")


def apart(blocks: Iterable[RenderableType]) -> Group:
    """Return blocks with a blank line between them."""
    parts: list[RenderableType] = []
    for block in blocks:
        parts += [Text(), block] if parts else [block]
    return Group(*parts)


def _limited(node: SyntaxTreeNode, screen: Screen) -> RenderableType:
    block = _block(node, screen)
    return block if node.type in _WIDE else Constrain(block, MOST_WIDTH)


def _inside(node: SyntaxTreeNode, screen: Screen) -> RenderableType:
    """Return the blocks of a list item or a quotation."""
    blocks = [_block(child, screen) for child in node.children]
    tight = any(child.type == "paragraph" and child.hidden for child in node.children)
    return Group(*blocks) if tight else apart(blocks)


def _block(node: SyntaxTreeNode, screen: Screen) -> RenderableType:
    match node.type:
        case "paragraph":
            block: RenderableType = inline(node.children[0], screen)
        case "heading":
            block = _heading(node, screen)
        case "fence" | "code_block":
            block = Prefixed(_code(node, screen), "    ")
        case "blockquote":
            bar = screen.either("│ ", "> ")
            block = Prefixed(_inside(node, screen), bar, bar, "dim")
        case "bullet_list" | "ordered_list":
            block = _list(node, screen)
        case "table":
            block = _MarkdownTable(node, screen)
        case "hr":
            block = Rule(characters=screen.either("─", "-"), style="dim")
        case _:
            block = Text(node.content, overflow="fold")
    return block


def _heading(node: SyntaxTreeNode, screen: Screen) -> RenderableType:
    level = int(node.tag[1:])
    text = inline(node.children[0], screen, "bold underline" if level == 1 else "bold")
    # Without a style, the marks show that it is a heading.
    return text if screen.styled else Prefixed(text, "#" * level + " ")


def _code(node: SyntaxTreeNode, screen: Screen) -> Text:
    code = node.content.rstrip("\n")
    language = node.info.split()[0] if node.info.split() else ""
    if not language or not screen.styled or len(code) > _LONGEST_CODE:
        return Text(code, CODE, overflow="fold")
    from rich.syntax import Syntax  # noqa: PLC0415 - brings Pygments

    # The colors are those of the terminal, so that they suit its background.
    highlighted = Syntax(code, language, theme="ansi_dark", background_color="default").highlight(code)
    highlighted.rstrip()
    highlighted.overflow, highlighted.no_wrap = "fold", False
    return highlighted


def _list(node: SyntaxTreeNode, screen: Screen) -> RenderableType:
    items = node.children
    if node.type == "bullet_list":
        marks = [screen.either("• ", "- ")] * len(items)
    else:
        first = int(node.attrs.get("start", 1))
        width = len(str(first + len(items) - 1))
        marks = [f"{number:>{width}}. " for number in range(first, first + len(items))]
    rows = [Prefixed(_inside(item, screen), mark) for item, mark in zip(items, marks, strict=True)]
    loose = any(child.type == "paragraph" and not child.hidden for item in items for child in item.children)
    return apart(rows) if loose else Group(*rows)


class _MarkdownTable:
    """A table in columns, or one line per cell if the columns would be too narrow."""

    def __init__(self, node: SyntaxTreeNode, screen: Screen) -> None:
        rows = [row for part in node.children for row in part.children]
        self._sides = [_side(cell) for cell in rows[0].children]
        self._head, *self._rows = [[inline(cell.children[0], screen) for cell in row.children] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = zip(self._head, *self._rows, strict=True)
        least = sum(max(_longest_word(cell) for cell in cells) + _GAP for cells in columns) - _GAP
        yield self._columns() if least <= options.max_width else apart(map(self._record, self._rows or [self._head]))

    def _columns(self) -> Table:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), border_style="dim")
        for head, side in zip(self._head, self._sides, strict=True):
            table.add_column(head, header_style="bold", justify=side, overflow="fold")
        for row in self._rows:
            table.add_row(*row)
        return table

    def _record(self, row: Sequence[Text]) -> RenderableType:
        if row is self._head:
            return Text(", ").join(row)
        named = [(head, cell) for head, cell in zip(self._head, row, strict=True) if cell]
        return Group(*(Text.assemble(head, ": " if head else "", cell) for head, cell in named))


def _side(cell: SyntaxTreeNode) -> JustifyMethod:
    style = str(cell.attrs.get("style", ""))
    return "right" if style.endswith("right") else "center" if style.endswith("center") else "left"


def _longest_word(cell: Text) -> int:
    return max((min(cell_len(word), _LONGEST_WORD) for word in cell.plain.split()), default=1)
