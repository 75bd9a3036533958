"""The tools cannot reach anything outside the root."""

import asyncio
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import RunSpecialistError, ToolError, UsageError
from run_specialist.tools.files import file_tools
from run_specialist.tools.sandbox import Sandbox


def all_output(call, path: str = "") -> str:
    """Return the combined output of all tools that list or search the root."""
    results = [
        call("ls"),
        call("glob", pattern="**"),
        call("grep", pattern="."),
        call("search", query="secret word marzipan", limit=50),
    ]
    return "\n".join(results)


@pytest.mark.parametrize(
    "path", ["..", "../secret.txt", "a/../../secret.txt", "./../root/../secret.txt", "/etc/passwd", "/"]
)
def test_paths_cannot_climb_out(call, write, path):
    """Each tool refuses a path that leads out of the root, in any spelling."""
    write({"a/x.md": "x"})
    for name in ("read", "ls"):
        with pytest.raises(ToolError, match="outside the root"):
            call(name, path=path)
    with pytest.raises(ToolError, match="outside the root"):
        call("grep", pattern="x", path=path)


def test_absolute_paths_inside_are_fine(call, write, root):
    """An absolute path inside the root is accepted."""
    write({"a/x.md": "hello"})
    assert "hello" in call("read", path=str(root / "a" / "x.md"))
    assert call("glob", pattern=f"{root}/a/*.md") == "a/x.md"


@pytest.mark.parametrize("target", ["../secret.txt", "..", "/etc", "/etc/passwd", "chain", "folder/../../secret.txt"])
def test_links_out_of_the_root_show_no_content(call, write, root, target):
    """A link, a chain of links or a linked folder that leaves the root shows no content from outside."""
    write({"folder/x.md": "x"})
    (root / "chain").symlink_to("../secret.txt")
    (root / "link").symlink_to(target)
    for path in ("link", "link/secret.txt", "link/passwd"):
        with pytest.raises(ToolError):
            call("read", path=path)
    assert "marzipan is" not in all_output(call)
    assert "word is marzipan" not in all_output(call)
    assert "leads to what you may not read" in call("ls")


def test_a_file_below_a_link_out_of_the_root_is_not_found(call, root, tmp_path):
    """A file below a link to an outside folder can be neither read nor found, also by its name."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.md").write_text("marzipan")
    (root / "inner").symlink_to(tmp_path / "outside", target_is_directory=True)
    with pytest.raises(ToolError, match="outside the root"):
        call("read", path="inner/x.md")
    assert "x.md" not in all_output(call)


def test_links_inside_are_followed_once(call, write, root):
    """A link to a file in the root can be read; searches report the file under its own path only."""
    write({"real.md": "needle"})
    (root / "alias.md").symlink_to("real.md")
    assert "needle" in call("read", path="alias.md")
    assert call("grep", pattern="needle") == "real.md:1: needle"
    assert "alias.md -> real.md" in call("ls")


def test_loops_of_links_end(call, write, root):
    """Links to each other or to a parent folder cause no endless loop."""
    write({"a/x.md": "needle"})
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    (root / "a" / "up").symlink_to("..", target_is_directory=True)
    assert call("grep", pattern="needle") == "a/x.md:1: needle"
    with pytest.raises(ToolError):
        call("read", path="one")


def test_link_to_something_hidden_is_refused(call, write, root):
    """A link to a hidden file is refused, because its target counts and not its name."""
    write({".gitignore": "private/\n", "private/x.md": "marzipan", ".git/config": "marzipan"})
    (root / "open.md").symlink_to("private/x.md")
    (root / "config").symlink_to(".git/config")
    for path in ("open.md", "config"):
        with pytest.raises(ToolError):
            call("read", path=path)


def test_a_file_below_a_swapped_folder_is_not_opened(root, write):
    """A file below a folder that was replaced by a link after the path was resolved is not opened."""
    write({"a/secret.txt": "harmless"})
    sandbox = Sandbox(root)
    located = sandbox.locate("a/secret.txt")
    shutil.rmtree(root / "a")
    (root / "a").symlink_to("..", target_is_directory=True)
    with pytest.raises(NotADirectoryError):
        sandbox.open(located)


@pytest.mark.parametrize("name", ["pipe", "socket"])
def test_special_files_are_never_opened(call, write, root, name):
    """`ls` lists a FIFO or a socket, and no tool hangs on it."""
    write({"x.md": "needle"})
    if name == "pipe":
        os.mkfifo(root / name)
    else:
        with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{short}/s")
            shutil.move(f"{short}/s", root / name)
    assert f"{name}  (no regular file" in call("ls")
    assert call("grep", pattern="needle") == "x.md:1: needle"
    with pytest.raises(ToolError, match="no regular file"):
        call("read", path=name)
    assert name not in call("glob", pattern="*")


@pytest.mark.parametrize("path", ["../x", "/etc", "a/*/../../../x"])
def test_paths_that_lead_out_are_a_usage_error(root, path):
    """`paths` in a specialist's file that lead out of the root are a UsageError."""
    with pytest.raises(UsageError, match="is outside the root"):
        file_tools(root, [path])


def test_a_missing_root_is_reported(call, root):
    """Each tool reports that the root does not exist."""
    root.rmdir()
    for name, arguments in [
        ("read", {"path": "x"}),
        ("ls", {}),
        ("glob", {"pattern": "*"}),
        ("grep", {"pattern": "x"}),
        ("search", {"query": "x"}),
    ]:
        with pytest.raises(ToolError, match="does not exist"):
            call(name, **arguments)


SEGMENTS = st.sampled_from(
    ["..", ".", "a", "link", "up", "x.md", "", "~", "root", "secret.txt", "/", "\0", "..\\..", "%2e%2e"]
)


@given(st.lists(SEGMENTS, max_size=8), st.booleans())
def test_no_combination_of_segments_leaves_the_root(segments, absolute):
    """Any path of `..`, links and odd names is refused or lies in the root."""
    with tempfile.TemporaryDirectory() as outer:
        root = Path(outer) / "root"
        (root / "a").mkdir(parents=True)
        (Path(outer) / "secret.txt").write_text("marzipan")
        (root / "a" / "x.md").write_text("fine")
        (root / "link").symlink_to("..")
        (root / "a" / "up").symlink_to("../..")
        path = ("/" if absolute else "") + "/".join(segments)
        tools = {tool.name: tool for tool in file_tools(root)}
        for name, arguments in [
            ("read", {"path": path}),
            ("grep", {"pattern": ".", "path": path}),
            ("ls", {"path": path}),
        ]:
            try:
                result = asyncio.run(tools[name].call(arguments)).text
            except RunSpecialistError:
                continue
            assert "marzipan" not in result
            assert "root" not in result
            assert Path(os.path.realpath(root / path)).is_relative_to(os.path.realpath(root))
