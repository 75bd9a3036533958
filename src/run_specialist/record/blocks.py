"""Content blocks of messages, and the text in them without the model's reasoning."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

Block = Mapping[str, Any]
"""One content block in the format of the Messages API, e.g. `{"type": "text", "text": "..."}`."""


def text_of(content: object) -> str:
    """Return the text of all text blocks in the content of a message.

    content: a string, or blocks as mappings or SDK objects; thinking of any kind is omitted.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable):
        return ""
    text, was_cited = "", False
    for block in content:
        part = _text_of_block(block)
        is_cited = isinstance(block, Mapping) and bool(block.get("citations"))
        # Citations split a text into blocks in the middle of its lines.
        text += ("\n" if text and part and not (was_cited or is_cited) else "") + part
        was_cited = is_cited
    return text


def _text_of_block(block: object) -> str:
    if isinstance(block, str):
        return block
    values = block if isinstance(block, Mapping) else vars(block) if hasattr(block, "__dict__") else {}
    text = values.get("text") if values.get("type") == "text" else None
    return text if isinstance(text, str) else ""


_THOUGHT = re.compile(
    r"\s*<think>.*?(?:</think>\s*|\Z)"  # an opening tag at the beginning, closed or not
    r"|(?:(?!<think>).)*?^\s*</think>[ \t]*\n\s*",  # only a closing tag on a separate line: the server's template opens
    re.DOTALL | re.MULTILINE,
)


def spoken(text: str) -> str:
    """Return a text without the reasoning that some servers put at its beginning."""
    thought = _THOUGHT.match(text)
    return text[thought.end() :] if thought else text


def sendable(content: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks of a reply in the form that the API accepts in the next request.

    Empty texts are removed, and arguments that are not an object become `{}`; thinking is kept byte for byte.
    """
    nonempty = (block for block in content if block.get("type") != "text" or str(block.get("text", "")).strip())
    return tuple(
        {**block, "input": {}}
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), Mapping)
        else block
        for block in nonempty
    )
