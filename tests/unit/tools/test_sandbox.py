"""The tools cannot reach anything outside the root or hidden, in any tree and by any name."""

import asyncio
import os
import re
import shutil
import socket
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import RunSpecialistError, ToolError, UsageError
from run_specialist.tools import sandbox
from run_specialist.tools.files import file_tools
from run_specialist.tools.sandbox import Sandbox, escape_path, unescape_path
from tests.link_swapper import can_swap, swapped


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


def test_links_out_of_the_root_show_no_content(call, write, root):
    """A link, a chain of links or a linked folder that leaves the root shows no content from outside."""
    write({"folder/x.md": "x"})
    (root / "chain").symlink_to("../secret.txt")
    targets = ["../secret.txt", "..", "/etc", "/etc/passwd", "chain", "folder/../../secret.txt"]
    for number, target in enumerate(targets):
        (root / f"link{number}").symlink_to(target)
        for path in (f"link{number}", f"link{number}/secret.txt", f"link{number}/passwd"):
            with pytest.raises(ToolError):
                call("read", path=path)
    assert "marzipan is" not in all_output(call)
    assert "word is marzipan" not in all_output(call)
    assert call("ls").count("leads to what you may not read") == len(targets) + 1


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


def test_a_fifo_named_gitignore_is_not_opened(call, write, root):
    """A .gitignore that is a FIFO is not opened; only a regular file is."""
    write({"x.md": "needle"})
    os.mkfifo(root / ".gitignore")
    assert call("grep", pattern="needle") == "x.md:1: needle"


def test_nested_gitignore_files_and_negation_take_effect(call, write):
    """No tool shows ignored files; the nearest .gitignore wins, and `!` includes a file again."""
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


def test_git_folders_are_hidden_and_other_dotfiles_visible(call, write):
    """`.git` is hidden at any depth and in any case; other dotfiles are visible."""
    write({".git/config": "needle", "sub/.GIT/x": "needle", ".env.example": "needle"})
    assert call("grep", pattern="needle") == ".env.example:1: needle"
    with pytest.raises(ToolError, match="belongs to git"):
        call("read", path=".git/config")
    assert ".git" not in call("ls")


def test_paths_limit_the_visible_files(call, write):
    """With `paths`, the tools show only matching files, and the folders above them can still be listed."""
    write({"thoughts/a.md": "needle", "docs/deep/b.md": "needle", "docs/deep/b.txt": "needle", "c.md": "needle"})
    paths = ("thoughts/", "docs/**/*.md")
    assert call("grep", paths=paths, pattern="needle") == "docs/deep/b.md:1: needle\nthoughts/a.md:1: needle"
    assert call("ls", paths=paths) == "docs/  1 entry\nthoughts/  1 entry"
    assert call("ls", paths=paths, path="docs/deep") == "b.md  6 B  1 line"
    for hidden in ("c.md", "docs/deep/b.txt"):
        with pytest.raises(ToolError, match="not among the paths"):
            call("read", paths=paths, path=hidden)


def test_the_root_among_paths_allows_all_files(call, write):
    """The root among `paths` allows all files."""
    write({"a.md": "needle"})
    for path in (".", "", "./"):
        assert call("glob", paths=(path,), pattern="*") == "a.md"


def test_paths_may_refer_to_a_linked_folder(call, write, root):
    """`paths` may refer to a folder by a link inside the root."""
    write({"documentation/a.md": "needle", "b.md": "needle"})
    (root / "docs").symlink_to("documentation")
    assert call("grep", paths=("docs/*.md",), pattern="needle") == "documentation/a.md:1: needle"


LEVELS = 22
NAME = "folder-in-folder" * 12


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


def test_hard_links_can_be_read(call, root, tmp_path):
    """A hard link to a file outside the root can be read."""
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


NAMES = [
    *("with space.md", "ünïcödé 漢字.md", "new\nline.md", "tab\t.md", "-dash.md", "[brackets].md", "a:1: b.md", "*.md"),
    *("--pre=cat.md", "{a,b}.md", "!not.md", "#comment.md", r"back\\slash \n.md", " blank before.md"),
    *("\x1b]0;title\x07.md", "$(touch x).md", "\u202eturned.md", f"{'long' * 63}.md"),
]


@pytest.mark.parametrize("ripgrep", [True, False])
def test_odd_file_names_are_printed_and_read_back(call, write, ripgrep, monkeypatch):
    """A printed path is on one line and can be passed to `read`."""
    if not ripgrep:
        monkeypatch.setenv("PATH", "")
    write(dict.fromkeys(NAMES, "needle"))
    printed = call("glob", pattern="*.md").split("\n")
    lines = {f"{path}:1: needle" for path in printed}
    assert len(printed) == len(NAMES)
    assert set(call("grep", pattern="needle").split("\n")) == lines
    assert lines <= set(call("search", query="needle", limit=50).split("\n"))
    assert all("needle" in call("read", path=path) for path in printed)


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


TRIES = int(os.environ.get("SANDBOX_TRIES", "5"))
"""Tries against links that are swapped in."""
CALLS = [
    ("read", {"path": "folder/x.md"}),
    ("read", {"path": "file.md"}),
    ("ls", {"path": "folder"}),
    ("ls", {"path": "."}),
    ("glob", {"pattern": "**"}),
    ("grep", {"pattern": "word", "path": "folder"}),
    ("search", {"query": "the secret word"}),
]


@pytest.fixture
def restless(root: Path, write, tmp_path: Path) -> Iterator[Path]:
    """Create a root in which a folder and a file are constantly swapped for links to secrets."""
    if not can_swap():
        pytest.skip("only Linux exchanges two names in one step")
    write({"folder/x.md": "harmless", "file.md": "harmless", "other/y.md": "harmless", ".gitignore": "hidden/"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("the secret word is marzipan\n")
    (outside / "marzipan.md").write_text("the secret word is marzipan\n")
    (tmp_path / "one").symlink_to(outside)
    (tmp_path / "two").symlink_to(outside / "x.md")
    with swapped((root / "folder", tmp_path / "one"), (root / "file.md", tmp_path / "two")):
        yield root


def test_links_swapped_during_reads_show_nothing(call, restless):
    """No tool shows text or names from outside, and each error is a ToolError."""
    for _ in range(TRIES):
        for name, arguments in CALLS:
            try:
                shown = call(name, **arguments)
            except ToolError as error:
                shown = str(error)
            assert "marzipan" not in shown, name


def test_opening_a_checked_path_never_follows_a_swapped_link(restless):
    """Opening a checked path never opens the target of a link that replaced a part of it."""
    sandbox = Sandbox(restless)
    for _ in range(20 * TRIES):
        for path in ("folder/x.md", "file.md"):
            with suppress(OSError), sandbox.open(path) as file:
                assert file.read() == b"harmless"
