"""Odd file names are printed on one line and can be used as paths again."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.tools.sandbox import escape_path, unescape_path

NAMES = [
    *("with space.md", "ünïcödé 漢字.md", "new\nline.md", "tab\t.md", "-dash.md", "[brackets].md", "a:1: b.md", "*.md"),
    *("--pre=cat.md", "{a,b}.md", "!not.md", "#comment.md", r"back\\slash \n.md", " blank before.md"),
    *("\x1b]0;title\x07.md", "$(touch x).md", "\u202eturned.md", f"{'long' * 63}.md"),
]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ripgrep", [True, False])
def test_odd_file_names_are_printed_and_read_back(call, write, name, ripgrep, monkeypatch):
    """A printed path is on one line and can be passed to `read`."""
    if not ripgrep:
        monkeypatch.setenv("PATH", "")
    write({name: "needle"})
    printed = call("glob", pattern="*.md")
    assert "\n" not in printed
    assert call("grep", pattern="needle") == f"{printed}:1: needle"
    assert f"{printed}:1: needle" in call("search", query="needle")
    assert "needle" in call("read", path=printed)


def test_names_that_are_not_utf8_can_be_read(call, root):
    """A name that is not UTF-8 is printed escaped and can be read."""
    (root / os.fsdecode(b"caf\xe9.md")).write_text("needle")
    assert call("grep", pattern="needle") == "caf\\xe9.md:1: needle"
    assert "needle" in call("read", path="caf\\xe9.md")


@given(st.text())
def test_printed_paths_are_one_line_of_valid_text(path):
    """The printed form of any path is one line of valid text."""
    printed = escape_path(path.encode("utf-8", "replace").decode())
    assert not {"\n", "\r", "\t"} & set(printed)
    printed.encode()
    if "\\" not in path:
        assert unescape_path(printed) == path.encode("utf-8", "replace").decode()
