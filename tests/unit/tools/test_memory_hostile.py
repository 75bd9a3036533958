"""Attacks on the notes of a specialist: names, links, files that are none, and folders that are swapped meanwhile."""

import os

import pytest

from tests.link_swapper import can_swap, swapped
from tests.unit.tools.notes import Notes

OUTSIDE = "outside stays as it is"


@pytest.fixture
def notes(tmp_path):
    """Return the notes of a project, beside a file outside of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.md").write_text(OUTSIDE)
    (tmp_path / "project").mkdir()
    made = Notes.of(tmp_path / "project")
    made.call("append", "MEMORY.md", file_text="a")
    return made


@pytest.mark.parametrize(
    "name",
    [
        *("../x.md", "a/../../x.md", "/etc/passwd", "..", "a/./b.md", "a//b.md", ".hidden.md", ".git/x.md"),
        *("x\0.md", "x\n.md", "a\\b.md", "~/x.md", "-x.md", "x" * 70 + ".md", "a/b/c/d.md", "con:x.md"),
        *("x.py", "x", "conftest.py", "x.md.sh", ".envrc", "a/.gitattributes"),
        *("CLAUDE.md", "topics/AGENTS.md", "gemini.md", "SKILL.md", "x.agent.md", "copilot-instructions.md"),
    ],
)
def test_names_that_are_no_names_of_notes(notes, name):
    """Nothing outside of the folder, nothing hidden, and nothing that a program reads or runs by itself."""
    before = sorted(notes.project.rglob("*"))
    for command in ("view", "create", "append", "str_replace", "delete"):
        said = notes.call(command, name, file_text="b", old_str="a", new_str="b")
        assert said.startswith("error: "), (command, said)
    assert sorted(notes.project.rglob("*")) == before


def _folder_is_a_link(notes, outside):
    (notes.folder / "MEMORY.md").unlink()
    notes.folder.rmdir()
    notes.folder.symlink_to(outside)


def _folder_above_is_a_link(notes, outside):
    (outside / "memory-local" / "finder").mkdir(parents=True)
    (outside / "memory-local" / "finder" / "x.md").write_text(OUTSIDE)
    (notes.project / ".run-specialist").rename(notes.project / "before")
    (notes.project / ".run-specialist").symlink_to(outside)


PREPARED = {
    "link to a file": lambda notes, outside: (notes.folder / "x.md").symlink_to(outside / "x.md"),
    "link to a folder": lambda notes, outside: (notes.folder / "topics").symlink_to(outside),
    "folder": _folder_is_a_link,
    "folder above": _folder_above_is_a_link,
    "second name": lambda notes, outside: os.link(outside / "x.md", notes.folder / "x.md"),
    "pipe": lambda notes, outside: os.mkfifo(notes.folder / "x.md"),
    "no file": lambda notes, outside: (notes.folder / "x.md").mkdir(),
}


@pytest.mark.parametrize("case", PREPARED)
def test_links_and_files_that_are_none_are_not_followed(notes, case):
    """A note that leads elsewhere is neither read nor changed, and a pipe does not hold up the call."""
    outside = notes.project.parent / "outside"
    PREPARED[case](notes, outside)
    name = "topics/x.md" if case == "link to a folder" else "x.md"
    for command in ("view", "append", "create", "str_replace", "delete"):
        said = notes.call(command, name, file_text="b", old_str="outside", new_str="b")
        assert said.startswith("error: ") or (case == "second name" and command == "view"), (command, said)
    assert (outside / "x.md").read_text() == OUTSIDE
    assert all(path.read_text() == OUTSIDE for path in outside.rglob("x.md"))


def test_the_list_has_only_notes(notes):
    """Links, hidden and temporary files, and files of other kinds are not listed."""
    (notes.folder / "x.md").symlink_to(notes.project.parent / "outside" / "x.md")
    (notes.folder / ".run-specialist-12.tmp").write_text("left over")
    (notes.folder / "script.py").write_text("1")
    (notes.folder / "loop").symlink_to(notes.folder)
    (notes.folder / "a" / "b" / "c" / "d").mkdir(parents=True)
    (notes.folder / "a" / "b" / "c" / "d" / "deep.md").write_text("1")
    assert notes.call("view") == "MEMORY.md  2 bytes"


@pytest.mark.exhaustive
@pytest.mark.skipif(not can_swap(), reason="the system cannot exchange two names atomically")
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(notes):
    """While the folder is exchanged for a link as fast as possible, nothing is written or read outside."""
    outside, link = notes.project.parent / "outside", notes.project / "link"
    link.symlink_to(outside)
    (outside / "MEMORY.md").write_text(OUTSIDE)
    said = set()
    with swapped((notes.folder, link)):
        for number in range(200):
            said.add(notes.call("append", "MEMORY.md", file_text=f"{number}")[:8])
            assert OUTSIDE not in notes.call("view", "MEMORY.md")
    assert {path.name: path.read_text() for path in outside.iterdir()} == dict.fromkeys(("x.md", "MEMORY.md"), OUTSIDE)
    assert said == {"Appended", "error: M"}


def test_local_notes_are_ignored_by_git(notes):
    """The folder of local notes tells git to ignore all of it; a file that is there already stays."""
    ignore = notes.folder.parent / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("!*\n")
    notes.call("append", "MEMORY.md", file_text="b")
    assert ignore.read_text() == "!*\n"
