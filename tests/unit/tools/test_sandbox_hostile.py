"""Hostile trees: endless files, very long paths, devices, programs in the root, and files that disappear."""

import os
import re
import shutil
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools import sandbox
from run_specialist.tools.files import describe, file_tools
from run_specialist.tools.sandbox import Entry, Sandbox

LEVELS = 250
NAME = "folder-in-folder"


@pytest.fixture
def chain(root: Path) -> Iterator[str]:
    """Nest folders until the path exceeds the system's limit, with a file in the innermost one."""
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


@pytest.mark.exhaustive
def test_paths_too_long_for_the_system_are_omitted(call, write, chain):
    """Files whose path is too long for the system are not listed; all other files are found."""
    write({"x.md": "needle", f"{NAME}/{NAME}/y.md": "needle"})
    assert call("grep", pattern="needle") == f"{NAME}/{NAME}/y.md:1: needle\nx.md:1: needle"
    assert "2 best of 2" in call("search", query="needle")
    assert "deep.md" not in call("glob", pattern="**", limit=2000)
    for path in (chain, chain.removesuffix("/deep.md"), f"{chain}/../x.md"):
        with pytest.raises(ToolError):
            call("read", path=path)


def test_reading_an_endless_file_stops_at_its_timeout(call, root, monkeypatch):
    """Reading stops at its timeout, both in a line that never ends and among countless lines."""
    monkeypatch.setattr(sandbox, "TIMEOUT", -1.0)
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
    """Devices in the root are not opened, so a tool neither reads endlessly nor blocks."""
    tools = {tool.name: tool for tool in file_tools(Path("/dev"))}
    with pytest.raises(ToolError):
        tools["read"](path=path)


def test_a_program_named_rg_in_the_root_is_not_run(call, write, root, monkeypatch):
    """An `rg` in the root is not run, even if PATH contains the current folder."""
    write({"rg": "#!/bin/sh\ntouch harmed\n", "x.md": "needle"})
    (root / "rg").chmod(0o755)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", ".")
    assert call("grep", pattern="needle") == "x.md:1: needle"
    assert not (root / "harmed").exists()


def test_a_deleted_file_is_marked_as_gone(root):
    """A file that is deleted while its folder is listed is marked as gone."""
    assert describe(Sandbox(root), Entry("gone.md", "file")) == "gone.md  (is gone by now)"
    assert describe(Sandbox(root), Entry("gone", "folder")) == "gone/  unreadable"


def test_hard_links_can_be_read(call, root, tmp_path):
    """A hard link to a file outside the root can be read.

    Any user who can create the link could also have copied the file.
    """
    os.link(tmp_path / "secret.txt", root / "second.txt")
    assert "marzipan" in call("read", path="second.txt")


def test_names_match_exactly_in_case_and_normalization(call, write, root):
    """A name in another case or Unicode normalization is not found; the error suggests the right one."""
    composed = "d\u00e9j\u00e0.md"
    write({composed: "needle"})
    for other in (unicodedata.normalize("NFD", composed), composed.upper()):
        if not (root / other).exists():
            with pytest.raises(ToolError, match=f"did you mean {re.escape(composed)}"):
                call("read", path=other)
