"""Make Markdown of a model safe to render in a notebook."""

import re

_TAG_OR_IMAGE = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)")


def harmless(markdown: str) -> str:
    """Return Markdown without HTML and images, which could leak content to another server.

    Text without either is returned unchanged. Otherwise each opening character is escaped, even in code.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only for notebooks

    blocks = MarkdownIt().parse(markdown)
    kinds = {token.type for block in blocks for token in (block, *(block.children or ()))}
    if not kinds & {"html_block", "html_inline", "image"}:
        return markdown
    return _TAG_OR_IMAGE.sub(r"\\\g<0>", markdown)
