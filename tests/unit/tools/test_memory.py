"""The tool `memory`: effects and refusals of its commands, and attacks; and the tools `todo` and `think`."""

import asyncio
import fcntl
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from run_specialist.cli.live import call_text
from run_specialist.errors import ToolError
from run_specialist.record.events import Called
from run_specialist.safety.redact import redactor
from run_specialist.safety.safe_files import Folder
from run_specialist.tools import memory
from run_specialist.tools.base import Tool
from run_specialist.tools.memory import NotesFolder, locked, memory_tool
from run_specialist.tools.planning import TodoList, think_tool, todo_tool
from tests.link_swapper import can_swap, swapped

FOLDER = ".run-specialist/memory-local/finder"


@dataclass
class Notes:
    """The notes of the specialist `finder` of a project, as one run has them."""

    project: Path
    tool: Tool

    @classmethod
    def of(cls, project: Path, *secrets: str, result_limit: int = 20_000, is_dry: bool = False) -> "Notes":
        """Return the notes of a project; `secrets` are masked."""
        folder = NotesFolder(project, FOLDER, FOLDER.rpartition("/")[0])
        return cls(project, memory_tool(folder, redactor(secrets), result_limit, is_dry=is_dry))

    @property
    def folder(self) -> Path:
        """The folder of the notes."""
        return self.project / FOLDER

    def call(self, command: str, path: str = "", **arguments: Any) -> str:
        """Call the tool; return its result, or the error as the model reads it."""
        try:
            return asyncio.run(self.tool.call({"command": command, "path": path, **arguments})).text
        except ToolError as error:
            return f"error: {error}"

    def text(self, note: str = "MEMORY.md") -> str:
        """Return the content of a note."""
        return (self.folder / note).read_text()


@pytest.fixture
def notes(tmp_path):
    """Return the notes of a project, of which there are none yet."""
    return Notes.of(tmp_path)


def test_notes_are_written_listed_read_changed_and_deleted(notes):
    """Each command works, and the results are short."""
    assert notes.call("view") == "There are no notes yet."
    assert notes.call("append", "MEMORY.md", file_text="- one") == "Appended to MEMORY.md."
    assert notes.call("append", "MEMORY.md", file_text="- two\r\n") == "Appended to MEMORY.md."
    assert notes.call("create", "/memories/topics/tests.md", file_text="slow") == "Created topics/tests.md."
    assert notes.call("view", "/memories") == "MEMORY.md  12 bytes\ntopics/tests.md  5 bytes"
    assert notes.call("view", "MEMORY.md") == "- one\n- two\n[MEMORY.md: lines 1-2 of 2]"
    assert notes.call("view", "MEMORY.md", offset=2) == "- two\n[MEMORY.md: lines 2-2 of 2]"
    assert notes.call("str_replace", "MEMORY.md", old_str="two", new_str="three") == "Changed MEMORY.md."
    assert notes.text() == "- one\n- three\n"
    assert notes.call("delete", "topics/tests.md") == "Deleted topics/tests.md."
    assert notes.call("view") == "MEMORY.md  14 bytes"


def test_what_cannot_be_done_is_said_and_changes_nothing(notes):
    """An error names the remedy; a failed call creates no file."""
    assert "there is no note MEMORY.md" in notes.call("view", "MEMORY.md")
    assert "there is no note MEMORY.md" in notes.call("str_replace", "MEMORY.md", old_str="a", new_str="b")
    assert "there is no note MEMORY.md" in notes.call("delete", "MEMORY.md")
    assert "name a note, such as MEMORY.md" in notes.call("append", file_text="a")
    assert "there is nothing to write" in notes.call("append", "MEMORY.md", file_text=" \n")
    assert not notes.folder.exists()
    notes.call("create", "MEMORY.md", file_text="a a")
    assert "there is a note MEMORY.md already" in notes.call("create", "MEMORY.md", file_text="b")
    assert "old_str is there 2 times" in notes.call("str_replace", "MEMORY.md", old_str="a", new_str="b")
    assert "old_str is not there" in notes.call("str_replace", "MEMORY.md", old_str="", new_str="b")
    assert "ends before line 5; it has 1 lines" in notes.call("view", "MEMORY.md", offset=5)
    assert notes.text() == "a a\n"


def test_a_note_that_this_run_has_not_seen_is_not_deleted(notes):
    """Later text of another run is not lost: it must be viewed first."""
    notes.call("create", "MEMORY.md", file_text="ours")
    other = Notes.of(notes.project)
    assert "was not viewed in this run" in other.call("delete", "MEMORY.md")
    other.call("append", "MEMORY.md", file_text="theirs")
    assert "was not viewed in this run" in other.call("delete", "MEMORY.md")
    assert "has changed since you viewed it" in notes.call("delete", "MEMORY.md")
    notes.call("view", "MEMORY.md")
    assert notes.call("delete", "MEMORY.md") == "Deleted MEMORY.md."


@pytest.mark.exhaustive
def test_runs_at_the_same_time_lose_no_notes(notes):
    """Eight runs append to one note; only the lock of the folder separates them, as between processes."""
    errors = []

    def write(run):
        mine = Notes.of(notes.project)
        errors.extend(
            said
            for number in range(10)
            if "Appended" not in (said := mine.call("append", "MEMORY.md", file_text=f"{run}.{number}"))
        )

    runs = [threading.Thread(target=write, args=(run,)) for run in range(8)]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert errors == []
    assert sorted(notes.text().split()) == sorted(f"{run}.{number}" for run in range(8) for number in range(10))


def test_a_run_does_not_wait_for_ever(notes):
    """A lock that another run keeps is an error after a while, and the note can be changed once it is free."""
    notes.call("append", "MEMORY.md", file_text="a")
    held, top = (os.open(notes.folder, os.O_RDONLY) for _ in range(2))
    waiting = Folder(top)
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(ToolError, match="another run is changing these notes"), locked(waiting, 0.02):
        pass
    os.close(held)
    with locked(waiting, 0.02):
        pass
    waiting.close()


def test_secrets_and_control_characters_are_not_written(notes):
    """Tokens by their shape and values of the run are masked, with a remark; a note is plain text."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    mine = Notes.of(notes.project, "our-own-secret-value")
    said = mine.call("append", "MEMORY.md", file_text=f"{token}\x00\x1b[31m\tour-own-secret-value\ud800")
    assert said == "Appended to MEMORY.md. Secrets in it were masked."
    assert notes.text() == "[redacted][31m\t[redacted]?\n"
    said = mine.call("str_replace", "MEMORY.md", old_str="?", new_str="our-own-secret-value")
    assert said.endswith("masked.")
    assert "our-own" not in notes.text()


def test_notes_are_bounded(notes, monkeypatch):
    """In size, in number, in a result, which is cut with the offset of the rest, and in the prompt."""
    assert "would be larger than 64 KiB" in notes.call("append", "a.md", file_text="ä" * 33_000)
    notes.call("append", "a.md", file_text="x\n" * 32_000)
    assert "would be larger than 64 KiB" in notes.call("append", "a.md", file_text="y" * 2_000)
    (notes.folder / "b.md").write_text("z" * 70_000)
    assert "larger than 65,536 bytes" in notes.call("append", "b.md", file_text="y")
    assert "the rest beyond 64 KiB cannot be viewed" in notes.call("view", "b.md")
    short = Notes.of(notes.project, result_limit=500).call("view", "a.md")
    assert len(short) <= 500
    assert "of 32000; view on with offset=" in short
    assert "first 200 lines" not in notes.call("append", "MEMORY.md", file_text="x\n" * 200)
    assert "Only its first 200 lines, or 25 KiB, are in your prompt" in notes.call("append", "MEMORY.md", file_text="y")
    monkeypatch.setattr(memory, "MOST", 3)
    assert "there are 3 notes already" in notes.call("create", "c.md", file_text="c")
    assert notes.call("append", "a.md", file_text="more") == "Appended to a.md."


def test_a_note_that_is_no_text_is_kept_as_it_is(notes):
    """An undecodable note is shown as far as possible, and is not rewritten."""
    notes.call("append", "MEMORY.md", file_text="a")
    (notes.folder / "MEMORY.md").write_bytes(b"\xff\xfe\x00")
    assert notes.call("append", "MEMORY.md", file_text="b") == "error: MEMORY.md is not UTF-8, so it cannot be changed"
    assert (notes.folder / "MEMORY.md").read_bytes() == b"\xff\xfe\x00"


def test_a_dry_run_changes_no_notes(notes):
    """Notes can be viewed, and each command that changes one says why it does not."""
    notes.call("append", "MEMORY.md", file_text="a")
    dry = Notes.of(notes.project, is_dry=True)
    assert dry.call("view", "MEMORY.md").startswith("a\n")
    for command in ("create", "append", "str_replace", "delete"):
        said = dry.call(command, "MEMORY.md", file_text="b", old_str="a", new_str="b")
        assert said == "error: this is a dry run, which changes no notes; go on without"
    assert notes.text() == "a\n"


OUTSIDE = "outside stays as it is"


@pytest.fixture
def attacked(tmp_path):
    """Return the notes of a project, beside a file outside of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.md").write_text(OUTSIDE)
    (tmp_path / "project").mkdir()
    made = Notes.of(tmp_path / "project")
    made.call("append", "MEMORY.md", file_text="a")
    return made


NO_NAMES = [
    *("../x.md", "a/../../x.md", "/etc/passwd", "..", "a/./b.md", "a//b.md", ".hidden.md", ".git/x.md"),
    *("x\0.md", "x\n.md", "a\\b.md", "~/x.md", "-x.md", "x" * 70 + ".md", "a/b/c/d.md", "con:x.md"),
    *("x.py", "x", "conftest.py", "x.md.sh", ".envrc", "a/.gitattributes"),
    *("CLAUDE.md", "topics/AGENTS.md", "gemini.md", "SKILL.md", "x.agent.md", "copilot-instructions.md"),
]


def test_names_that_are_no_names_of_notes(attacked):
    """Nothing outside of the folder, nothing hidden, and nothing that a program reads or runs by itself."""
    before = sorted(attacked.project.rglob("*"))
    for name in NO_NAMES:
        for command in ("view", "create", "append", "str_replace", "delete"):
            said = attacked.call(command, name, file_text="b", old_str="a", new_str="b")
            assert said.startswith("error: "), (name, command, said)
    assert sorted(attacked.project.rglob("*")) == before


def _folder_is_a_link(attacked, outside):
    (attacked.folder / "MEMORY.md").unlink()
    attacked.folder.rmdir()
    attacked.folder.symlink_to(outside)


def _folder_above_is_a_link(attacked, outside):
    (outside / "memory-local" / "finder").mkdir(parents=True)
    (outside / "memory-local" / "finder" / "x.md").write_text(OUTSIDE)
    (attacked.project / ".run-specialist").rename(attacked.project / "before")
    (attacked.project / ".run-specialist").symlink_to(outside)


PREPARED = {
    "link to a file": lambda attacked, outside: (attacked.folder / "x.md").symlink_to(outside / "x.md"),
    "link to a folder": lambda attacked, outside: (attacked.folder / "topics").symlink_to(outside),
    "folder": _folder_is_a_link,
    "folder above": _folder_above_is_a_link,
    "second name": lambda attacked, outside: os.link(outside / "x.md", attacked.folder / "x.md"),
    "pipe": lambda attacked, outside: os.mkfifo(attacked.folder / "x.md"),
    "no file": lambda attacked, outside: (attacked.folder / "x.md").mkdir(),
}


@pytest.mark.parametrize("case", PREPARED)
def test_links_and_files_that_are_none_are_not_followed(attacked, case):
    """A note that leads elsewhere is neither read nor changed, and a pipe does not hold up the call."""
    outside = attacked.project.parent / "outside"
    PREPARED[case](attacked, outside)
    name = "topics/x.md" if case == "link to a folder" else "x.md"
    for command in ("view", "append", "create", "str_replace", "delete"):
        said = attacked.call(command, name, file_text="b", old_str="outside", new_str="b")
        assert said.startswith("error: ") or (case == "second name" and command == "view"), (command, said)
    assert (outside / "x.md").read_text() == OUTSIDE
    assert all(path.read_text() == OUTSIDE for path in outside.rglob("x.md"))


def test_the_list_has_only_notes(attacked):
    """Links, hidden and temporary files, and files of other kinds are not listed."""
    (attacked.folder / "x.md").symlink_to(attacked.project.parent / "outside" / "x.md")
    (attacked.folder / ".run-specialist-12.tmp").write_text("left over")
    (attacked.folder / "script.py").write_text("1")
    (attacked.folder / "loop").symlink_to(attacked.folder)
    (attacked.folder / "a" / "b" / "c" / "d").mkdir(parents=True)
    (attacked.folder / "a" / "b" / "c" / "d" / "deep.md").write_text("1")
    assert attacked.call("view") == "MEMORY.md  2 bytes"


@pytest.mark.exhaustive
@pytest.mark.skipif(not can_swap(), reason="the system cannot exchange two names atomically")
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(attacked):
    """While the folder is exchanged for a link as fast as possible, nothing is written or read outside."""
    outside, link = attacked.project.parent / "outside", attacked.project / "link"
    link.symlink_to(outside)
    (outside / "MEMORY.md").write_text(OUTSIDE)
    said = set()
    with swapped((attacked.folder, link)):
        for number in range(60):
            said.add(attacked.call("append", "MEMORY.md", file_text=f"{number}")[:8])
            assert OUTSIDE not in attacked.call("view", "MEMORY.md")
    assert {path.name: path.read_text() for path in outside.iterdir()} == dict.fromkeys(("x.md", "MEMORY.md"), OUTSIDE)
    assert said == {"Appended", "error: M"}


def test_local_notes_are_ignored_by_git(attacked):
    """The folder of local notes tells git to ignore all of it; a file that is there already stays."""
    ignore = attacked.folder.parent / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("!*\n")
    attacked.call("append", "MEMORY.md", file_text="b")
    assert ignore.read_text() == "!*\n"


def call(tool, **arguments):
    """Call a tool and return its text."""
    return asyncio.run(tool.call(arguments)).text


def test_the_list_is_kept_and_returned():
    """Each call gives the whole list; without one it is returned as it is."""
    tool = todo_tool(TodoList())
    assert call(tool) == "The list is empty."
    given = [
        {"content": "Read\nthe notes", "status": "completed"},
        {"step": "Answer", "status": "in_progress"},
        {"content": "x"},
    ]
    assert call(tool, todos=given) == "1 of 3 done\n[x] Read the notes\n[>] Answer\n[ ] x"
    assert call(tool) == "1 of 3 done\n[x] Read the notes\n[>] Answer\n[ ] x"
    assert call(tool, todos=[]) == "The list is empty."


@pytest.mark.parametrize(
    "todos", [[{"content": ""}], [{"status": "done", "content": "a"}], [{"content": "a"}] * 51, "a"]
)
def test_a_list_that_is_none_is_refused(todos):
    """Invalid lists are an error for the model, and the list stays as it was."""
    tool = todo_tool(TodoList())
    call(tool, todos=[{"content": "kept"}])
    with pytest.raises(ToolError):
        call(tool, todos=todos)
    assert call(tool).endswith("[ ] kept")


def test_the_live_view_shows_the_item_in_progress():
    """Not the whole list, as the model has written it; and the result of a thought is short."""
    assert call(think_tool(), thought="Both say 30.") == "Noted."
    todos = [{"content": "Read\x1b[31m", "status": "in_progress"}, {"content": "Answer"}]
    assert call_text(Called("finished", "call_1", "todo", {"todos": todos})) == "todo    0 of 2 done: Read\ufffd[31m"
