"""Unified diffs: what they say, and that git applies them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.tools import text_edit as subject
from run_specialist.tools.text_edit import diff_of, shortened
from tests.unit.tools.edited_files import apply_patch

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "\r", "@@ -1 +1 @@", "-x", "\\ y"]), max_size=14)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + "\n" * end, LINES, st.booleans())
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


def applied(diff, before):
    """Return a text after a diff, whose hunks must fit."""
    old, new, at = before.split("\n"), [], 0
    shown = iter(diff.split("\n"))
    left = (0, 0)
    for line in shown:
        if left == (0, 0):
            if found := _HUNK.fullmatch(f"{line}\n"):
                start, count, _, now = (int(number or 1) for number in found.groups())
                begin = start - 1 if count else start
                new += old[at:begin]
                at, left = begin, (count, now)
            continue
        mark, text = line[:1], line[1:]
        if mark in " -":
            assert old[at] == text
            at += 1
        if mark in " +":
            new.append(text)
        left = (left[0] - (mark in " -"), left[1] - (mark in " +"))
    assert left == (0, 0)
    return "\n".join(new + old[at:])


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, st.booleans())
def test_a_diff_leads_from_one_text_to_the_other(before, after, by_position):
    """Line by line, also where the lines are too many to be compared with each other."""
    most = subject._MOST_COMPARED
    subject._MOST_COMPARED = 0 if by_position else most
    try:
        diff = diff_of("x.md", before, after)
    finally:
        subject._MOST_COMPARED = most
    # A remark marks the end of the last line; this small reader does not support it.
    if before.endswith("\n") and after.endswith("\n"):
        assert applied(diff.text, before) == after
    assert (diff.text == "") == (before == after)


CASES = {
    "plain.md": ("one\ntwo\nthree\n", "one\n2\nthree\n"),
    "with blanks.md": ("".join(f"{n}\n" for n in range(40)), "".join(f"{n}\n" for n in range(40) if n not in {3, 30})),
    "crlf.txt": ("one\r\ntwo\r\n", "one\r\n2\r\n"),
    "no-end.txt": ("one\ntwo", "one\ntwo\n"),
    "lost-end.txt": ("one\ntwo\n", "one\ntwo"),
    'odd "name\\.md': ("a\n", "b\n"),
    "ümlaut.md": ("a\n", "ä\u2028b\n"),
    "emptied.md": ("a\n", ""),
    "folder/new.md": (None, "new\n"),
    "empty.md": (None, ""),
}


def test_git_applies_a_patch_of_many_files(tmp_path):
    """Files with CRLF, without a last line end, with blanks and quotes in their names, new and empty ones."""
    for name, (before, _) in CASES.items():
        if before is not None:
            (tmp_path / name).write_bytes(before.encode())
    patch = "".join(diff_of(name, before, after).text for name, (before, after) in CASES.items())
    apply_patch(tmp_path, patch)
    for name, (_, after) in CASES.items():
        assert (tmp_path / name).read_bytes() == after.encode(), name


def test_long_texts_are_compared_quickly():
    """Twenty thousand lines of which each second one changed; and two that have nothing in common."""
    before = "".join(f"line {n}\n" for n in range(20_000))
    after = "".join(f"line {n}{'!' * (n % 2)}\n" for n in range(20_000))
    assert (diff_of("x", before, after).added, diff_of("x", before, "y\n" * 30_000).counts) == (10_000, "+30000 -20000")


@pytest.mark.parametrize(("most", "kept", "rest"), [(1_000, 5, ""), (12, 1, "[4 more lines"), (0, 0, "[5 more lines")])
def test_a_long_diff_is_cut_at_a_line(most, kept, rest):
    """A line says how much is left out."""
    diff = "".join(f"+line {n}\n" for n in range(5))
    short = shortened(diff, most)
    assert short.startswith(diff[: 8 * kept])
    assert rest in short
    assert (short == diff) == (not rest)
