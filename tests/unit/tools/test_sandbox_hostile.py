"""Trees that were made to hurt: endless files, endless paths, devices, programs in the root, files that vanish."""

import os
import re
import shutil
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.files.files import file_tools
from run_specialist.tools.files.present import describe
from run_specialist.tools.sandbox import text
from run_specialist.tools.sandbox.listing import Entry
from run_specialist.tools.sandbox.sandbox import Sandbox

LEVELS = 250
NAME = "folder-in-folder"


@pytest.fixture
def chain(root: Path) -> Iterator[str]:
    """Make folders in folders, until the path is longer than the system takes, with a file in the last."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(LEVELS):
        os.mkdir(NAME, dir_fd=here)
        inner = os.open(NAME, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("deep.md", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    yield f"{NAME}/" * LEVELS + "deep.md"
    shutil.rmtree(root / NAME)


def test_paths_longer_than_the_system_takes_are_left_out(call, write, chain):
    """What cannot be asked for by its path is not listed either, and all else is found."""
    write({"x.md": "needle", f"{NAME}/{NAME}/y.md": "needle"})
    assert call("grep", pattern="needle") == f"{NAME}/{NAME}/y.md:1: needle\nx.md:1: needle"
    assert "2 best of 2" in call("search", query="needle")
    assert "deep.md" not in call("glob", pattern="**", limit=2000)
    for path in (chain, chain.removesuffix("/deep.md"), f"{chain}/../x.md"):
        with pytest.raises(ToolError):
            call("read", path=path)


def test_a_file_without_an_end_is_given_up(call, root, monkeypatch):
    """Neither one line that never ends nor lines without number hold a tool for ever."""
    monkeypatch.setattr(text, "TIMEOUT", -1.0)
    with (root / "line.txt").open("wb") as line:
        line.write(b"word " * 2_000)
        line.truncate(1_000_000)
    (root / "lines.txt").write_text("word\n" * 1_000)
    for arguments in ({"path": "line.txt"}, {"path": "lines.txt", "offset": 900}):
        with pytest.raises(ToolError, match="too large to be read so far"):
            call("read", **arguments)
    assert "lines.txt  4.9 KB  unreadable" in call("ls")


@pytest.mark.parametrize("path", ["zero", "null", "fd/0", "stdin", "tty"])
def test_devices_are_never_opened(path):
    """Where the root holds devices, they are no files: nothing is read that has no end, and nothing waits."""
    tools = {tool.name: tool for tool in file_tools(Path("/dev"))}
    with pytest.raises(ToolError):
        tools["read"](path=path)


def test_a_program_in_the_root_is_not_taken_for_ripgrep(call, write, root, monkeypatch):
    """With a PATH that holds the current folder, an `rg` there is not run."""
    write({"rg": "#!/bin/sh\ntouch harmed\n", "x.md": "needle"})
    (root / "rg").chmod(0o755)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", ".")
    assert call("grep", pattern="needle") == "x.md:1: needle"
    assert not (root / "harmed").exists()


def test_a_file_that_vanished_is_said_to_be_gone(root):
    """A listing is made line by line, and a file may go in between."""
    assert describe(Sandbox(root), Entry("gone.md", "file")) == "gone.md  (is gone by now)"
    assert describe(Sandbox(root), Entry("gone", "folder")) == "gone/  unreadable"


def test_hard_links_are_files_of_the_root(call, root, tmp_path):
    """A second name of a file outside is a file like any other: who could make it could have copied the file."""
    os.link(tmp_path / "secret.txt", root / "second.txt")
    assert "marzipan" in call("read", path="second.txt")


def test_names_are_what_the_file_system_says(call, write, root):
    """Other case or other composition of the same letters is another name; the right one is proposed."""
    composed = "d\u00e9j\u00e0.md"
    write({composed: "needle"})
    for other in (unicodedata.normalize("NFD", composed), composed.upper()):
        if not (root / other).exists():
            with pytest.raises(ToolError, match=f"did you mean {re.escape(composed)}"):
                call("read", path=other)
