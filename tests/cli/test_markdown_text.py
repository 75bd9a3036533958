"""Markdown on a terminal: the appearance of each element, and no control over the terminal."""

import io
import re
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from run_specialist.cli.answer import apart, evidence_block, gaps_block, markdown
from run_specialist.record.outcome import Evidence
from run_specialist.views.markdown import MOST_CHARACTERS
from tests.terminal import POISON, harm

LINK = re.compile(r"\x1b\]8;(?:id=\d+)?;([^\x1b]*)\x1b\\")
SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000]")
"""Special spaces and joiners, which are harmless."""
PIECES = st.sampled_from([
    POISON, "\x1b[31m", "&#27;[2J", "&#x202e;", "&#x9b;1m", "&#12;", "\u202e", "[x](javascript:alert(1))",
    "<a>", "](", "[", "`", "```\n", "**", "*", "> ", "- ", "1. ", "\n", "\n\n", "# ", "~~", "    x", "\t", "===\n",
    "|a|b|\n|-|:-:|\n|c|d|\n", "![i](data:x)", "<https://e.org/\x1b>", "[a](http://e.org/%1b\x1b]8;;x)",
    "[bold red]x[/]", ":smile:", "[link=file:///etc/passwd]x[/link]",
])  # fmt: skip
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=25).map("".join)


def shown(renderable, width=60, *, color=True):
    """Return what a console writes for a renderable."""
    paper = io.StringIO()
    system = "standard" if color else None
    Console(file=paper, width=width, color_system=system, force_terminal=color, legacy_windows=False).print(renderable)
    return paper.getvalue()


def plain(text, width=60):
    """Return the lines of a Markdown text without styles."""
    return [line.rstrip() for line in shown(markdown(text), width, color=False).splitlines()]


def colored(text, width=60):
    """Return a Markdown text with styles."""
    with patch("run_specialist.cli.answer.has_colours", return_value=True):
        return shown(markdown(text), width)


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.integers(1, 120), st.booleans())
@example("[good](http://e.org/\x1b\\\x1b]8;;file:///etc\x1b\\)", 40, True)
def test_nothing_in_a_text_controls_the_terminal(text, width, styled):
    """No control character, no foreign escape sequence, no reversed text, and only web and mail links."""
    with patch("run_specialist.cli.answer.has_colours", return_value=styled):
        evidence = evidence_block([Evidence(text, text, found) for found in (True, False, None)])
        parts = [markdown(text), *evidence, *gaps_block([text])]
    written = shown(apart(parts), width, color=styled)
    targets = [target for target in LINK.findall(written) if target]
    assert all(re.fullmatch(r"(https?://|mailto:)[!-~]+", target, re.IGNORECASE) for target in targets)
    assert harm(SPACES.sub(" ", LINK.sub("", written))) == []
    assert styled or "\x1b" not in written


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(categories=("L", "N")), min_size=1, max_size=30), st.integers(8, 100))
def test_words_are_kept(word, width):
    """Ordinary words reach the screen unchanged and in order, on every width."""
    lines = plain(f"{word} **{word}** - {word}\n\n> {word}\n\n- {word}", width)
    assert "".join("".join(lines).split()).count(word) >= 5 or cell_len(word) > width - 4


def test_links_show_their_address():
    """Every link shows its address; only addresses of the web and of mail can be clicked, and only the address."""
    text = "[a](https://e.org) [b](file:///etc/passwd) [c](src/x.py) <mailto:d@e.org> ![i](https://e.org/i.png) <https://f.org>"
    written = colored(text, 200)
    assert [target for target in LINK.findall(written) if target] == [
        "https://e.org", "mailto:d@e.org", "https://e.org/i.png", "https://f.org",
    ]  # fmt: skip
    assert plain(text, 200) == [
        "a (https://e.org) b (file:///etc/passwd) c (src/x.py) mailto:d@e.org i (https://e.org/i.png)",
        "https://f.org",
    ]


def test_addresses_are_short():
    """An address that is the text of its link is shown once, and a long one that cannot be opened is cut."""
    assert plain("<d@e.org>") == ["d@e.org"]
    assert len("".join(plain(f"![i](data:image/png;base64,{'A' * 5_000})"))) < 210


def test_emphasis_is_styled():
    """Emphasis and code have a style instead of their marks."""
    assert colored("**a** *b* ~~c~~ `d`") == "\x1b[1ma\x1b[0m \x1b[3mb\x1b[0m \x1b[9mc\x1b[0m \x1b[36md\x1b[0m\n"


def test_html_is_text():
    """Generic types and tags are shown, not dropped."""
    assert plain("A List<int> and <b>x</b>.\n\n<div>\ny\n</div>") == [
        "A List<int> and <b>x</b>.",
        "",
        "<div>",
        "y",
        "</div>",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("## Head\ntext", ["## Head", "", "text"]),
        ("one:\ntwo", ["one:", "two"]),
        (f"{'word ' * 13}\nnext", [("word " * 12).strip()[:59], "word next"]),
        ("- a\n- b\n  - c", ["• a", "• b", "  • c"]),
        ("- a\n\n- b", ["• a", "", "• b"]),
        ("9. a\n10. b", [" 9. a", "10. b"]),
        ("> a\n>\n> b", ["│ a", "│", "│ b"]),
        ("```py\nx = [1]\n\n  y\n```", ["    x = [1]", "", "      y"]),
        ("a\n\n---\n\nb", ["a", "", "─" * 60, "", "b"]),
        ("|a|b|\n|-|-:|\n|x|10|\n|y|2|", ["a    b", "──────", "x   10", "y    2"]),
        ("|a|\n|-|", ["a", "─"]),
        ("[red]x[/] :smile:", ["[red]x[/] :smile:"]),
        ("", []),
    ],
)  # fmt: skip
def test_each_element_has_its_form(text, lines):
    """Without styles, marks, indentation and blank lines distinguish the elements."""
    assert plain(text) == lines


def test_a_very_long_text_is_shown_as_it_is():
    """A text above the limit is not parsed, because that could take long."""
    assert plain("**a** " + "x" * MOST_CHARACTERS)[0].startswith("**a**")


def test_deeply_nested_text_is_not_lost():
    """The parser drops parts that are nested too deeply, so such a text is shown unrendered."""
    for depth in range(1, 60):
        assert "kept" in "".join("".join(plain("> " * depth + "kept", 200)).split())
        assert "kept" in "".join("".join(plain("- " * depth + "kept", 200)).split())


def test_prose_of_evidence_is_wrapped_again():
    """Line breaks of a quote from a text file are only wrapping, unless a list or code follows; code keeps them all."""
    quote = "one\ntwo\n- three\n\n    four"

    def lines(source):
        block = evidence_block([Evidence(source, quote, verified=True)])
        return [line.strip() for line in shown(apart(block), color=False).splitlines()]

    assert lines("a.md:3")[2:] == ["✓ a.md:3", "one two", "- three", "", "four"]
    assert lines("a.py:3")[2:] == ["✓ a.py:3", "one", "two", "- three", "", "four"]
