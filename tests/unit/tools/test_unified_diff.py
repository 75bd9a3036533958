"""Unified diffs: what they say, and that git applies them."""

import random

import pytest

from run_specialist.tools import text_edit as subject
from run_specialist.tools.text_edit import diff_of, shortened
from tests.unit.tools.edited_files import apply_patch

LINES = ["a", "b", "c", "", "\r", "@@ -1 +1 @@", "-x", "\\ y"]


def some_text(chance):
    """Return a text of some lines, with or without an end of the last one."""
    return "\n".join(chance.choices(LINES, k=chance.randrange(1, 14))) + "\n" * chance.randrange(2)


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


@pytest.mark.parametrize("most", [0, subject._MOST_COMPARED])
def test_git_applies_a_patch_of_many_files(tmp_path, monkeypatch, most):
    """Files with CRLF, without a last line end, with blanks and quotes in their names, new and empty ones, and others.

    Also where the lines are too many to be compared with each other.
    """
    monkeypatch.setattr(subject, "_MOST_COMPARED", most)
    chance = random.Random(1)  # noqa: S311 - no secret
    cases = CASES | {f"{number}.md": (some_text(chance), some_text(chance)) for number in range(60)}
    for name, (before, _) in cases.items():
        if before is not None:
            (tmp_path / name).write_bytes(before.encode())
    diffs = [diff_of(name, before, after) for name, (before, after) in cases.items()]
    apply_patch(tmp_path, "".join(diff.text for diff in diffs))
    assert {name: (tmp_path / name).read_bytes().decode() for name in cases} == {
        name: after for name, (_, after) in cases.items()
    }
    assert diff_of("x.md", "a", "a").text == ""


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
