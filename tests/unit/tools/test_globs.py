"""Patterns without backtracking match the same paths, and no pattern or file name can hang the program."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from run_specialist.errors import ToolError
from run_specialist.tools.ignore import compile_globs

PIECES = st.sampled_from(["*", "*", "**", "/", "/**/", "a", "b", "?", "[ab]", "\\*", ".", " x"])
PATTERNS = st.lists(PIECES, min_size=1, max_size=9).map("".join)
PATHS = st.lists(st.text("aab.*x ", min_size=1, max_size=4), min_size=1, max_size=6).map("/".join)


@given(PATTERNS, st.lists(PATHS, max_size=4), st.sampled_from(["", "/"]))
@example("****//?**", ["b/.*a*"], "")
@example("**/a*/**/*b", ["xa/a/b/ab", "a/b/b", "ba/b"], "")
def test_a_glob_selects_the_same_paths_as_in_pathspec(pattern, paths, end):
    """A glob selects the same paths as pathspec does, whose expressions may backtrack."""
    with suppress(ValueError):
        (reference,) = GitIgnoreSpec.from_lines([pattern]).patterns
        for path in paths if reference.regex else ():
            found = reference.regex.search(path + end)
            assert bool(compile_globs([pattern]).fullmatch(f"/{path}{end}")) == bool(found), path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 40 + "*b", "a" * 248 + "bc"),
        ("**/a" * 40 + "/b", "a/" * 1_000 + "bc"),
        ("**/*a*" * 30 + "/x", "aa/" * 1_300 + "xy"),
        ("[a-z]*" * 50 + "!", "a" * 250),
        ("**/*a*a*a*/**/*a*a/**/b*a*b", "aaaaaa/" * 500 + "b"),
    ],
)
def test_no_pattern_backtracks_exponentially(pattern, path):
    """Patterns that backtrack exponentially in pathspec finish; `re` would block all threads meanwhile."""
    assert not compile_globs([pattern]).fullmatch(f"/{path}")


def test_a_hostile_gitignore_does_not_hang_the_search(call, write):
    """A tree with a hostile .gitignore and matching file names is searched like any other."""
    write({".gitignore": "*a" * 30 + "*b\n", f"{'a' * 250}.md": "needle", f"{'a' * 100}b": "needle"})
    assert call("grep", pattern="needle") == f"{'a' * 250}.md:1: needle"


def test_character_classes_do_not_match_a_slash(call, write):
    """As in git, `[!a]` matches one character of a name, never `/`; classes such as `[[:alpha:]]` cause no warning."""
    write({".gitignore": "x[!a]y\n[[:alpha:]]z\n", "x/y": "needle", "xby": "needle"})
    assert call("grep", pattern="needle") == "x/y:1: needle"


def test_an_unfinished_character_class_selects_nothing(call, write):
    """As in git, `[]*` does not hide all files: the bracket after the first one belongs to a class that has no end."""
    write({".gitignore": "[]*\n[!]*\n", "x": "needle", "y.md": "needle"})
    assert call("glob", pattern="*") == ".gitignore\nx\ny.md"


def test_braces_do_not_multiply_without_end(call, write):
    """A glob with many pairs of braces is refused before it is expanded."""
    write({"a.md": "x"})
    with pytest.raises(ToolError, match="too many wildcards"):
        call("glob", pattern="{a,b}" * 60)
    assert call("glob", pattern="{a,b}.{md,rst}") == "a.md"
