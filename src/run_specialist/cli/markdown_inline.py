"""Inline Markdown on a terminal: emphasis, code, and links with their address."""

from markdown_it.tree import SyntaxTreeNode
from rich.style import Style
from rich.text import Text

from run_specialist.cli.console import printable
from run_specialist.cli.screen import Screen
from run_specialist.views.answer_markdown import opens, shown_address

CODE = "cyan"
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


def inline(node: SyntaxTreeNode, screen: Screen, style: str = "") -> Text:
    """Return the text of a block.

    style: of all of it.
    """
    text = Text(style=style, overflow="fold")
    for child in node.children:
        _add(text, child, screen)
    return text


def _add(text: Text, node: SyntaxTreeNode, screen: Screen) -> None:
    match node.type:
        case "softbreak":
            text.append(" ")
        case "hardbreak":
            text.append("\n")
        case "code_inline":
            # Without a style, the marks show where a name begins and ends.
            text.append(node.content if screen.styled else f"`{node.content}`", CODE)
        case "link" | "image":
            _add_link(text, node, screen)
        case _ if node.children:
            start = len(text)
            for child in node.children:
                _add(text, child, screen)
            if node.type in _STYLES:
                text.stylize(_STYLES[node.type], start)
        case _:
            text.append(node.content)


def _add_link(text: Text, node: SyntaxTreeNode, screen: Screen) -> None:
    """Add the text of a link or an image and then its address; only the address can be clicked."""
    start = len(text)
    for child in node.children:
        _add(text, child, screen)
    label = text.plain[start:]
    url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
    clickable = Style(underline=True, link=url) if opens(url) else Style(dim=True)
    address = shown_address(url, label, printable)
    if address:
        text.append(" (" if label else "").append(address, clickable).append(")" if label else "")
    elif opens(url):
        text.stylize(clickable, start)
