"""Replacements of passages: exact, unique, and with the line ends of the file."""

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.text_edit import Replacement, decoded, edited, encoded, rewritten


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("one two", "two", "2", "one 2"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2", "1\r\n2\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2\r\n3", "1\r\n2\r\n3\r\n"),
        ("a\nb\r\nc\n", "b\nc", "x\ny", None),
        ("a\nb\r\nc\r\n", "b\nc\n", "x\ny\n", "a\nx\r\ny\r\n"),
        ("a\nb\r\nc\n", "a\nb", "x\ny", "x\ny\r\nc\n"),
        ("\ufeffone", "one", "two", "\ufefftwo"),
        ("a\u2028b", "\u2028", "\n", "a\nb"),
    ],
)
def test_line_ends_and_marks_stay(text, old, new, result):
    """A passage is found whatever its line ends, unless the file has both kinds within it."""
    if result is None:
        result = "a\nx\r\ny\n"
        old, new = "b\r\nc", "x\r\ny"
    assert edited(text, [Replacement(old, new)]) == result


def test_several_replacements_are_made_one_after_the_other():
    """The second one sees what the first one has changed."""
    assert edited("a b", [Replacement("a", "b"), Replacement("b", "c", replace_all=True)]) == "c c"


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [
        (Replacement("x", "y"), "is not in the file"),
        (Replacement("a", "b"), "occurs 2 times; add lines around it"),
        (Replacement("aa", "b"), "is not in the file"),
        (Replacement("b b", "c"), "occurs 2 times"),
        (Replacement("", "b"), "`old` is empty"),
        (Replacement("a", "a"), "are the same"),
        (Replacement("     1\ta\n", "b"), "omit the line numbers"),
        (Replacement("c", "[redacted]"), "stands for a secret"),
    ],
)
def test_what_cannot_be_replaced_says_why(replacement, reason):
    """Each refusal names the reason, and which of several edits it is; none of them is made."""
    with pytest.raises(ToolError, match=reason.replace("[", r"\[")):
        edited("a c a\nb b b", [replacement])
    with pytest.raises(ToolError, match="edit 2 of 2"):
        edited("a c a\nb b b", [Replacement("c", "d"), replacement])


def test_a_whole_file_keeps_its_mark_and_line_ends():
    """What a model writes in place of a file has its byte order mark and CRLF; a new file is as written."""
    assert rewritten("\ufeffa\r\nb\r\n", "c\nd\n") == "\ufeffc\r\nd\r\n"
    assert rewritten("a\n", "c\r\n") == "c\r\n"
    assert rewritten(None, "c\r\nd\n") == "c\r\nd\n"
    with pytest.raises(ToolError, match="stands for a secret"):
        rewritten("password = x\n", "password = [redacted]\n")
    assert rewritten("[redacted]", "see [redacted]") == "see [redacted]"


def test_only_characters_of_utf_8_are_read_and_written():
    """Other encodings and binary files are refused, because a change could damage them; and half of a character."""
    for data in (b"a\xffb", "text".encode("utf-16"), b"a\0b"):
        with pytest.raises(ToolError, match=r"not UTF-8|binary"):
            decoded(data)
    with pytest.raises(ToolError, match="surrogate"):
        encoded("a\ud800b")
