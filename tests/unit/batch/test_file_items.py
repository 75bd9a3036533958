"""Files as items."""

import hashlib
import os

import pytest

from run_specialist.batch.questions import Template, asked
from run_specialist.batch.read_items import files_source
from run_specialist.errors import UsageError

FILES = {
    "README.md": "read me",
    "docs/a.md": "a",
    "docs/B.md": "b",
    "docs/deep/c.md": "c",
    "docs/deep/d.txt": "d",
    "build/e.md": "e",
    ".env": "KEY=x",
    ".gitignore": "build/\n",
    ".git/f.md": "f",
}


@pytest.fixture
def root(tmp_path):
    """A project with files that are ignored, secret and linked."""
    top = tmp_path / "project"
    for name, text in FILES.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "g.md").write_text("g")
    (top / "docs" / "linked").symlink_to(tmp_path / "outside")
    (top / "docs" / "link.md").symlink_to(tmp_path / "outside" / "g.md")
    return top


def paths(root, pattern, only=()):
    """Return the paths of the files that match."""
    return [given.input["path"] for given in files_source(pattern, root, only).read()]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("docs/**/*.md", ["docs/B.md", "docs/a.md", "docs/deep/c.md"]),
        ("/docs/*.md", ["docs/B.md", "docs/a.md"]),
        ("*.md", ["README.md", "docs/B.md", "docs/a.md", "docs/deep/c.md"]),
        ("docs/deep", ["docs/deep/c.md", "docs/deep/d.txt"]),
        ("docs/{a,B}.md", ["docs/B.md", "docs/a.md"]),
        ("{docs,build}/deep/*.txt", ["docs/deep/d.txt"]),
    ],
)
def test_files_are_sorted_and_confined(root, pattern, expected):
    """Links are not followed, and ignored, secret and git's files are left out."""
    assert paths(root, pattern) == expected


@pytest.mark.parametrize(
    "pattern", ["build/*.md", ".env", ".git/*", "docs/linked/*.md", "docs/link.md", "/etc/*", "nothing*"]
)
def test_no_file_is_an_error(root, pattern):
    """A pattern that only matches what is left out says so."""
    with pytest.raises(UsageError, match=r"no file below .* ignored, secret and linked files are left out"):
        files_source(pattern, root)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("../*.md", "leads out of the folder"), ("", "is empty"), ("/", "is empty"), ("*" * 40, "too many wildcards")],
)
def test_invalid_patterns(root, pattern, reason):
    """The error is that of the pattern."""
    with pytest.raises(UsageError, match=reason):
        files_source(pattern, root)


def test_the_fields_of_a_file(root):
    """The path is relative to the root, and its content is only in the key."""
    (given,) = files_source("docs/deep/d.txt", root).read()
    assert given.input == {"path": "docs/deep/d.txt", "name": "d.txt", "stem": "d"}
    assert (given.where, given.content) == ("docs/deep/d.txt", hashlib.sha256(b"d").hexdigest())


def test_a_changed_file_is_a_new_item(root):
    """The key depends on the content, the question does not."""

    def items():
        return [*asked(files_source("docs/*.md", root).read(), Template("What does {path} say?"))]

    before = items()
    (root / "docs" / "a.md").write_text("changed")
    after = items()
    assert [item.question for item in before] == [item.question for item in after]
    same = [one.key == other.key for one, other in zip(before, after, strict=True)]
    assert same == [True, False]


@pytest.mark.parametrize(("name", "shown"), [("a\nb.md", r"a\nb.md"), (os.fsdecode(b"\xe9.md"), r"\xe9.md")])
def test_strange_names_are_escaped_as_in_the_file_tools(root, name, shown):
    """The specialist can read a file by the name in the question."""
    (root / "docs" / "new").mkdir()
    (root / "docs" / "new" / name).write_text("x")
    assert paths(root, "docs/new/*") == [f"docs/new/{shown}"]


def test_an_unreadable_file_is_named(root):
    """A file that disappears before it is read."""
    source = files_source("docs/*.md", root)
    (root / "docs" / "B.md").unlink()
    with pytest.raises(UsageError, match=r"^docs/B\.md cannot be read: "):
        [*source.read()]


def test_the_paths_of_a_specialist_restrict_the_files(root):
    """It could not read the others."""
    assert paths(root, "*.md", ["docs/deep"]) == ["docs/deep/c.md"]
