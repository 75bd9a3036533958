"""A .gitignore of any size takes effect and is compiled once; if it is too large, its folder stays closed."""

import os
import random
import shutil
import subprocess
import sys

import pytest

from run_specialist.errors import ToolError
from run_specialist.safety.safe_files import Folder
from run_specialist.tools.ignore import IgnoreFile, IgnoreRules
from run_specialist.tools.sandbox import Sandbox, files

MANY = 120_000


def test_a_gitignore_with_very_many_lines_takes_effect(call, write):
    """Among 120,000 lines, names, paths, endings and folders are hidden, and later lines win."""
    lines = [*(f"x{number}" for number in range(MANY)), "/top.md", "*.tmp.log", "build/", "!x7", "sub/x8.md", "y*z"]
    write({".gitignore": "\n".join(lines)})
    hidden = ["x0", "sub/x119999", "top.md", "a.tmp.log", "build/a.md", "sub/x8.md", "sub/y--z"]
    seen = ["sub/build", "sub/top.md", "x7", "x8.md"]
    write(dict.fromkeys([*hidden, *seen], "needle"))
    assert call("grep", pattern="needle").splitlines() == [f"{path}:1: needle" for path in seen]
    for path in hidden:
        with pytest.raises(ToolError, match=r"hidden by \.gitignore"):
            call("read", path=path)


def test_the_last_matching_line_decides():
    """The last matching line decides, with and without wildcards.

    This also holds if one expression merges older and newer lines.
    """
    file = IgnoreFile(
        b"\n".join([b"!a*", b"a.md", b"zz*q", b"b.md", b"!b*", b"!*.log", b"x*.log", b"!*.?d/", b"x.md/"])
    )
    names = {"a.md": True, "b.md": False, "ab": False, "x1.log": True, "y.log": False, "c": None, "zzq": True}
    assert {name: file.hides(name, is_folder=False) for name in names} == names
    assert [file.hides(name, is_folder=True) for name in ("x.md", "y.md", "c")] == [True, False, None]


def test_a_changed_gitignore_takes_effect_with_the_same_time_and_size(call, write, root):
    """A changed .gitignore takes effect even with the same time and size; the cache key is its content."""
    write({".gitignore": "a.md\n", "a.md": "needle", "b.md": "needle"})
    before = (root / ".gitignore").stat()
    assert call("grep", pattern="needle") == "b.md:1: needle"
    write({".gitignore": "b.md\n"})
    os.utime(root / ".gitignore", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert call("grep", pattern="needle") == "a.md:1: needle"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("*a*b*c\n" * 20_000, "more than 100,000 characters of patterns with wildcards"),
        ("**/*a*a*a*/**/*a*a/**/b*a*b\n" * MANY, "more than 100,000 characters of patterns with wildcards"),
        ("*a" * 60_000, "more than 100,000 characters of patterns with wildcards"),
        ("x\n" * 2_000_001, "larger than 4 MB"),
        (None, "larger than 4 MB"),
    ],
    ids=["wild", "catastrophic", "one line", "long", "huge"],
)
def test_a_gitignore_that_is_too_large_closes_its_folder(call, write, root, content, why):
    """A .gitignore that is too large closes its folder; `ls` and `read` give the reason, and other files are found."""
    write({"sub/.gitignore": content or "", "sub/deep/a.md": "needle", "b.md": "needle"})
    if content is None:
        os.truncate(root / "sub" / ".gitignore", 1_000_000_000)
    assert call("grep", pattern="needle") == "b.md:1: needle"
    assert call("ls") == "sub/  unreadable\nb.md  6 B  1 line"
    with pytest.raises(ToolError, match=f"'sub/deep/a.md' cannot be reached: sub/.gitignore: {why}"):
        call("read", path="sub/deep/a.md")
    with pytest.raises(ToolError, match=f"sub cannot be listed: sub/.gitignore: {why}"):
        call("ls", path="sub")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("glob", {"pattern": "*"}), ("grep", {"pattern": "x"}), ("search", {"query": "x"}), ("ls", {})],
)
def test_a_closed_root_is_reported_by_each_tool(call, write, name, arguments):
    """If the root's .gitignore is too large, each tool gives the reason instead of an empty result."""
    write({".gitignore": "*a*b*c\n" * 20_000, "a.md": "x"})
    with pytest.raises(ToolError, match=r"cannot be listed: \.gitignore: more than"):
        call(name, **arguments)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(24, "Too many open files")])
def test_an_unreadable_gitignore_hides_everything(write, root, monkeypatch, error):
    """An unreadable .gitignore hides everything, since its rules are unknown; a missing one hides nothing."""
    write({".gitignore": "a.md\n", "a.md": "x"})

    def fail(_, name):
        raise error if name == ".gitignore" else AssertionError(name)

    monkeypatch.setattr(Folder, "file", fail)
    with pytest.raises(OSError, match=rf"\.gitignore: {error.strerror}"):
        IgnoreRules().within(Folder(str(root), None), "")


def test_a_symlinked_gitignore_is_ignored(call, write, root):
    """A .gitignore that is a symlink is ignored, as in git, because it could lead anywhere."""
    write({"rules": "a.md\n", "a.md": "needle"})
    (root / ".gitignore").symlink_to("rules")
    assert call("grep", pattern="needle") == "a.md:1: needle"


def test_odd_patterns_and_paths_match_as_in_git(call, write, root):
    """Odd patterns and paths match as in git.

    A byte order mark, a line break in a path, a pattern that is not UTF-8, and a pattern that ends in a space.
    """
    write({".gitignore": b"\xef\xbb\xbfa.md\n*.log\ncaf\xe9*\n\\*.b\\ \nc.d \n", "new\nline/x.log": "needle"})
    write(dict.fromkeys(["a.md", "*.b ", "c.d", "e.md"], "needle"))
    (root / os.fsdecode(b"caf\xe9.md")).write_text("needle")
    assert call("grep", pattern="needle") == "e.md:1: needle"


NAMES = [
    "a\nb",
    *["a", "b", "ab", "a.x", "b.x.y", ".x", "x y", "A", "a*b", "[a]", "!a", "#a", "a\\b", "n.log", "a ", "b."],
]
PIECES = [
    *("*", "*", "**", "/", "/**/", "a", "b", "ab", "?", "[ab]", "[!a]", "\\*", ".", ".x", "*.x", "x y", "!", "#"),
    *("[a-z]", "*.log", "[]a]", " ", "\\ ", "A", "foo"),
]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.skipif(not shutil.which("git") or sys.platform == "win32", reason="git is asked what it hides")
@pytest.mark.parametrize("seed", range(4))
def test_random_patterns_hide_the_same_files_as_git(root, seed):
    """Random patterns in several .gitignore files, in a tree of odd names, hide the same files as git."""
    chance = random.Random(seed)  # noqa: S311 - random test patterns
    folders = [root]
    for _ in range(12):
        parent = chance.choice(folders)
        for name in chance.sample(NAMES, 6):
            path = parent / name
            if not path.exists() and chance.random() < 0.3:
                path.mkdir()
                folders.append(path)
            elif not path.exists():
                path.write_text("x")
    command = ["git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"]
    subprocess.run([*command[:1], "init", "-q"], cwd=root, check=True)
    for _ in range(40):
        chosen = [folder / ".gitignore" for folder in chance.sample(folders, 2)]
        for path in chosen:
            lines = ["".join(chance.choices(PIECES, k=chance.randint(1, 5))) for _ in range(4)]
            # git and our patterns differ on classes that contain a `/`, and on several `/` in a row.
            lines = [line for line in lines if "//" not in line.replace("**", "") and not ("[" in line and "/" in line)]
            path.write_text("".join(f"{'!' * (chance.random() < 0.2)}{line}\n" for line in lines))
        shown = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
        told = [path.read_text() for path in chosen]
        assert set(files(Sandbox(root))) == {os.fsdecode(path) for path in shown.split(b"\0") if path}, told
        for path in chosen:
            path.unlink()
