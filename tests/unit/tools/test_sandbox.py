"""Nothing outside the root can be reached, and what is hidden stays hidden."""

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
from run_specialist.tools.files.files import file_tools
from run_specialist.tools.sandbox.sandbox import Sandbox, meant, shown

READERS = [("read", "path"), ("ls", "path"), ("grep", "path")]


def all_output(call, path: str = "") -> str:
    """Return what every tool shows of the root together."""
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
    """A path that leads out of the root is refused by each tool, whatever its spelling."""
    write({"a/x.md": "x"})
    for name in ("read", "ls"):
        with pytest.raises(ToolError, match="outside the root"):
            call(name, path=path)
    with pytest.raises(ToolError, match="outside the root"):
        call("grep", pattern="x", path=path)


def test_absolute_paths_inside_are_fine(call, write, root):
    """An absolute path is taken when it lies in the root."""
    write({"a/x.md": "hello"})
    assert "hello" in call("read", path=str(root / "a" / "x.md"))
    assert call("glob", pattern=f"{root}/a/*.md") == "a/x.md"


@pytest.mark.parametrize("target", ["../secret.txt", "..", "/etc", "/etc/passwd", "chain", "folder/../../secret.txt"])
def test_links_cannot_lead_out(call, write, root, target):
    """A link, a chain of links or a linked folder that leaves the root shows nothing of what is there."""
    write({"folder/x.md": "x"})
    (root / "chain").symlink_to("../secret.txt")
    (root / "link").symlink_to(target)
    for path in ("link", "link/secret.txt", "link/passwd"):
        with pytest.raises(ToolError):
            call("read", path=path)
    assert "marzipan is" not in all_output(call)
    assert "word is marzipan" not in all_output(call)
    assert "leads to what you may not read" in call("ls")


def test_linked_parent_folder_cannot_lead_out(call, write, root, tmp_path):
    """A file whose parent folder is a link to outside cannot be read, nor found."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("marzipan")
    (root / "inner").symlink_to(outside, target_is_directory=True)
    with pytest.raises(ToolError, match="outside the root"):
        call("read", path="inner/x.md")
    assert "x.md" not in all_output(call)


def test_links_inside_are_followed_once(call, write, root):
    """A link to a file inside the root can be read by its name; searching finds the file where it lies."""
    write({"real.md": "needle"})
    (root / "alias.md").symlink_to("real.md")
    assert "needle" in call("read", path="alias.md")
    assert call("grep", pattern="needle") == "real.md:1: needle"
    assert "alias.md -> real.md" in call("ls")


def test_loops_of_links_end(call, write, root):
    """Links that lead to each other, or to a folder above, are no trap."""
    write({"a/x.md": "needle"})
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    (root / "a" / "up").symlink_to("..", target_is_directory=True)
    assert call("grep", pattern="needle") == "a/x.md:1: needle"
    with pytest.raises(ToolError):
        call("read", path="one")


def test_link_to_something_hidden_is_refused(call, write, root):
    """A link is judged by what it leads to, not by its name."""
    write({".gitignore": "private/\n", "private/x.md": "marzipan", ".git/config": "marzipan"})
    (root / "open.md").symlink_to("private/x.md")
    (root / "config").symlink_to(".git/config")
    for path in ("open.md", "config"):
        with pytest.raises(ToolError):
            call("read", path=path)


def test_file_swapped_for_a_link_is_not_read(root, write):
    """A file that becomes a link after its path was resolved is not opened."""
    write({"a/secret.txt": "harmless"})
    sandbox = Sandbox(root)
    located = sandbox.locate("a/secret.txt")
    shutil.rmtree(root / "a")
    (root / "a").symlink_to("..", target_is_directory=True)
    with pytest.raises(NotADirectoryError):
        sandbox.open(located)


@pytest.mark.parametrize("name", ["pipe", "socket"])
def test_special_files_are_never_opened(call, write, root, name):
    """A FIFO or a socket is named by ls, and no tool hangs on it."""
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


def test_gitignore_that_is_a_fifo_is_left_alone(call, write, root):
    """Even the ignore file is opened only when it is a regular file."""
    write({"x.md": "needle"})
    os.mkfifo(root / ".gitignore")
    assert call("grep", pattern="needle") == "x.md:1: needle"


def test_gitignore_with_nested_files_and_negation(call, write):
    """Ignored files are seen by no tool; the nearest .gitignore wins, `!` brings a file back."""
    write(
        {
            ".gitignore": "*.log\nbuild/*\n!build/keep.md\n/top.md\n\\\n",
            "a.log": "needle",
            "build/x.md": "needle",
            "build/keep.md": "needle",
            "top.md": "needle",
            "sub/top.md": "needle",
            "sub/.gitignore": "!b.log\nonly.md\n",
            "sub/b.log": "needle",
            "sub/only.md": "needle",
            "only.md": "needle",
        }
    )
    seen = ["build/keep.md", "only.md", "sub/b.log", "sub/top.md"]
    assert [line.split(":")[0] for line in call("grep", pattern="needle").splitlines()] == seen
    assert [line for line in call("glob", pattern="*").splitlines() if "ignore" not in line] == seen
    found = call("search", query="needle", limit=50)
    assert {line.split(":")[0] for line in found.splitlines() if line[:1] not in ("", "[")} == set(seen)
    for hidden in ("a.log", "build/x.md", "top.md", "sub/only.md"):
        with pytest.raises(ToolError, match=r"hidden by \.gitignore"):
            call("read", path=hidden)


def test_gitignore_that_opens_only_some_kinds_of_files(call, write):
    """The idioms that ignore all and bring some back mean what they mean to git."""
    write(
        {
            ".gitignore": "*\n!*/\n!*.md\n",
            "a.txt": "needle",
            "sub/a.md": "needle",
            "sub/a.txt": "needle",
            "docs/.gitignore": "x/**\n",
            "docs/x/.gitignore": "!b.md\n",
            "docs/x/a.md": "needle",
            "docs/x/b.md": "needle",
        }
    )
    assert call("grep", pattern="needle") == "docs/x/b.md:1: needle\nsub/a.md:1: needle"


def test_git_is_never_shown_and_hidden_files_are(call, write):
    """`.git` is invisible at any depth and in any case; other hidden files are ordinary."""
    write({".git/config": "needle", "sub/.GIT/x": "needle", ".env.example": "needle"})
    assert call("grep", pattern="needle") == ".env.example:1: needle"
    with pytest.raises(ToolError, match="belongs to git"):
        call("read", path=".git/config")
    assert ".git" not in call("ls")


def test_paths_limit_what_is_seen(call, write):
    """With `paths` nothing else exists for any tool, but the folders above stay walkable."""
    write({"thoughts/a.md": "needle", "docs/deep/b.md": "needle", "docs/deep/b.txt": "needle", "c.md": "needle"})
    paths = ("thoughts/", "docs/**/*.md")
    assert call("grep", paths=paths, pattern="needle") == "docs/deep/b.md:1: needle\nthoughts/a.md:1: needle"
    assert call("ls", paths=paths) == "docs/  1 entry\nthoughts/  1 entry"
    assert call("ls", paths=paths, path="docs/deep") == "b.md  6 B  1 line"
    for hidden in ("c.md", "docs/deep/b.txt"):
        with pytest.raises(ToolError, match="not among the paths"):
            call("read", paths=paths, path=hidden)


@pytest.mark.parametrize("paths", [(".",), ("",), ("./",)])
def test_the_root_itself_as_path_is_no_restriction(call, write, paths):
    """Naming the root among `paths` shows all of it."""
    write({"a.md": "needle"})
    assert call("grep", paths=paths, pattern="needle") == "a.md:1: needle"


def test_a_linked_folder_among_paths_is_taken_by_its_target(call, write, root):
    """`paths` may name a folder by a link inside the root."""
    write({"documentation/a.md": "needle", "b.md": "needle"})
    (root / "docs").symlink_to("documentation")
    assert call("grep", paths=("docs/*.md",), pattern="needle") == "documentation/a.md:1: needle"


@pytest.mark.parametrize("path", ["../x", "/etc", "a/*/../../../x"])
def test_paths_that_lead_out_are_a_usage_error(root, path):
    """A specialist's file cannot open the door: its `paths` must lie in the root."""
    with pytest.raises(UsageError, match="leads out of the root"):
        file_tools(root, [path])


def test_a_root_that_vanished_is_said_plainly(call, root):
    """Each tool says so when the root is gone."""
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


NAMES = [
    "with space.md",
    "ünïcödé 漢字.md",
    "new\nline.md",
    "tab\t.md",
    "-dash.md",
    "[brackets].md",
    "$(touch x).md",
    "a:1: b.md",
    "--pre=cat.md",
    "*.md",
    "{a,b}.md",
    "!not.md",
    "#comment.md",
    r"back\\slash \n.md",
    " blank before.md",
    "\x1b]0;title\x07.md",
    "\u202eturned.md",
    f"{'long' * 63}.md",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ripgrep", [True, False])
def test_odd_file_names_survive(call, write, name, ripgrep, monkeypatch):
    """What a tool prints as a path stays on one line and can be given back to read."""
    if not ripgrep:
        monkeypatch.setenv("PATH", "")
    write({name: "needle"})
    printed = call("glob", pattern="*.md")
    assert "\n" not in printed
    assert call("grep", pattern="needle") == f"{printed}:1: needle"
    assert f"{printed}:1: needle" in call("search", query="needle")
    assert "needle" in call("read", path=printed)


def test_names_that_are_no_utf8_survive(call, root):
    """A name of bytes that are no UTF-8 is printed escaped and can be read."""
    (root / os.fsdecode(b"caf\xe9.md")).write_text("needle")
    assert call("grep", pattern="needle") == "caf\\xe9.md:1: needle"
    assert "needle" in call("read", path="caf\\xe9.md")


@given(st.text())
def test_shown_paths_are_one_line_of_valid_text(path):
    """Whatever a path holds, its printed form can go into a message."""
    printed = shown(path.encode("utf-8", "replace").decode())
    assert not {"\n", "\r", "\t"} & set(printed)
    printed.encode()
    if "\\" not in path:
        assert meant(printed) == path.encode("utf-8", "replace").decode()


SEGMENTS = st.sampled_from(
    ["..", ".", "a", "link", "up", "x.md", "", "~", "root", "secret.txt", "/", "\0", "..\\..", "%2e%2e"]
)


@given(st.lists(SEGMENTS, max_size=8), st.booleans())
def test_no_combination_of_segments_leaves_the_root(segments, absolute):
    """Any path made of climbing, links and odd names is refused or lies in the root."""
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
