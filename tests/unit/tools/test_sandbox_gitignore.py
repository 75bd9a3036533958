"""Files hidden by .gitignore or outside `paths` stay hidden."""

import os

import pytest

from run_specialist.errors import ToolError


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


def test_gitignore_that_opens_only_some_kinds_of_files(call, write):
    """Patterns that ignore everything and include some files again work as in git."""
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


@pytest.mark.parametrize("paths", [(".",), ("",), ("./",)])
def test_the_root_among_paths_allows_all_files(call, write, paths):
    """The root among `paths` allows all files."""
    write({"a.md": "needle"})
    assert call("grep", paths=paths, pattern="needle") == "a.md:1: needle"


def test_paths_may_refer_to_a_linked_folder(call, write, root):
    """`paths` may refer to a folder by a link inside the root."""
    write({"documentation/a.md": "needle", "b.md": "needle"})
    (root / "docs").symlink_to("documentation")
    assert call("grep", paths=("docs/*.md",), pattern="needle") == "documentation/a.md:1: needle"
