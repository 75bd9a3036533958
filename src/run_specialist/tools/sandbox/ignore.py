"""Gitignore patterns, compiled so that one path is matched against very many of them at once.

Patterns without wildcards, and those like `*.log`, are looked up in a dictionary, so that their number does not
matter; pathspec translates all others into regular expressions, of which many are tried in one call.
"""

import errno
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_specialist.tools.sandbox.globs import entire, tamed

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

COMPILING = threading.Lock()
"""Held while patterns are compiled without the warnings that `re` has for them."""
MOST_WILDCARDS = 100_000
"""Of patterns with wildcards, other than `*.log`, one file may hold this much; each takes time for each path
[characters]."""
_AT_ONCE = 50
_PLAIN = re.compile(r"[^*?\[\\]+")
_ENDING = re.compile(r"\*\.[^*?\[\\/]+")


def spec_of(lines: Iterable[str]) -> "GitIgnoreSpec":
    """Compile gitignore patterns; one that cannot be read is left out, as git does."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - a heavy import that many runs never need
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - as above

    patterns: list[GitIgnoreSpecPattern] = []
    # The list of warning filters is shared by all threads, and classes such as `[[:alpha:]]` make `re` warn.
    with COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in lines:
            try:
                regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
                if regex is not None:
                    patterns.append(GitIgnoreSpecPattern(re.compile(tamed(regex), re.DOTALL), include))
            except (ValueError, re.error):
                continue
    return GitIgnoreSpec(patterns)


@dataclass(frozen=True, slots=True)
class _Expressions:
    """Some patterns with wildcards, each a group of one expression, the newest first."""

    regex: re.Pattern[str]
    ranks: Sequence[int]
    """Of each group, falling; see `IgnoreFile`."""


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of one .gitignore. Each has a rank: twice its line number, and one more when it hides."""

    plain: Mapping[str, int]
    """By pattern: `name`, `/path/from/here` or `*.ext`, for folders alone with a `/` at the end."""
    names: Sequence[_Expressions]
    """Of names at any depth, the newest first."""
    paths: Sequence[_Expressions]
    """Of paths from the folder of the file, the newest first."""

    def hides(self, relative: str, *, is_folder: bool) -> bool | None:
        """Tell whether the last pattern that fits an entry hides it; None when none fits.

        relative: to the folder that the file lies in, whose folders below are not hidden.
        """
        name, end = relative.rpartition("/")[2], "/" * is_folder
        rank = max(self.plain.get(key, -1) for key in _keys(relative, name, end)) if self.plain else -1
        for group, text in ((self.names, name + end), (self.paths, relative + end)):
            for expressions in group:
                if expressions.ranks[0] < rank:
                    break
                if match := expressions.regex.fullmatch(text):
                    rank = max(rank, expressions.ranks[(match.lastindex or 1) - 1])
                    break
        return None if rank < 0 else bool(rank % 2)


def _keys(relative: str, name: str, end: str) -> Iterator[str]:
    """Yield the patterns without wildcards, and those like `*.log`, that fit an entry."""
    found = [name, f"/{relative}"]
    dot = name.find(".")
    while dot >= 0:
        found.append(f"*{name[dot:]}")
        dot = name.find(".", dot + 1)
    yield from found
    if end:
        yield from (f"{key}/" for key in found)


def ignore_file(lines: Iterable[str]) -> IgnoreFile:
    """Compile the lines of a .gitignore; a pattern that cannot be read is left out, as git does.

    Raises OSError (EFBIG) for more wildcards than can be matched in time.
    """
    plain: dict[str, int] = {}
    wild: list[tuple[int, str, bool]] = []
    for number, line in enumerate(lines):
        text = _stripped(line)
        if not text or text[0] == "#":
            continue
        pattern = text.removeprefix("!")
        is_for_folders, body = pattern.endswith("/"), pattern.removesuffix("/")
        if body.startswith("**/") and "/" not in body[3:]:
            body = body[3:]
        rank = 2 * number + (not text.startswith("!"))
        if (key := _key(body)) is not None:
            plain[key + "/" * is_for_folders] = rank
        elif body:
            wild.append((rank, text, "/" not in body))
    if sum(len(text) for _, text, _ in wild) > MOST_WILDCARDS:
        raise OSError(errno.EFBIG, f"more than {MOST_WILDCARDS:,} characters of patterns with wildcards")
    wild.reverse()
    names = _expressions([(rank, text) for rank, text, is_name in wild if is_name], is_name=True)
    paths = _expressions([(rank, text) for rank, text, is_name in wild if not is_name], is_name=False)
    return IgnoreFile(plain, tuple(names), tuple(paths))


def _stripped(line: str) -> str:
    """Remove white space at the end, but, as git does, no blank after a backslash."""
    text = line.rstrip()
    escapes = len(text) - len(text.rstrip("\\"))
    return f"{text} " if escapes % 2 and line.startswith(f"{text} ") else text


def _key(body: str) -> str | None:
    """Return by what a pattern is looked up; None for one that takes an expression.

    body: without the signs before and after it that say which entries it is for.
    """
    if _ENDING.fullmatch(body):
        return body
    if not _PLAIN.fullmatch(body):
        return None
    return f"/{body.removeprefix('/')}" if "/" in body else body


def _expressions(patterns: Sequence[tuple[int, str]], *, is_name: bool) -> Iterator[_Expressions]:
    if not patterns:
        return
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - as above

    found: list[tuple[int, str]] = []
    for rank, text in patterns:
        try:
            regex, _ = GitIgnoreSpecPattern.pattern_to_regex(text)
        except ValueError:
            continue
        if regex is not None:
            found.append((rank, entire(regex, is_name=is_name)))
    for start in range(0, len(found), _AT_ONCE):
        yield from _compiled(found[start : start + _AT_ONCE])


def _compiled(found: Sequence[tuple[int, str]]) -> Iterator[_Expressions]:
    """Compile regular expressions into one; those that `re` does not take are left out."""
    try:
        with COMPILING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regex = re.compile("|".join(f"({regex})" for _, regex in found), re.DOTALL)
    except re.error:
        if len(found) > 1:
            for one in found:
                yield from _compiled([one])
        return
    yield _Expressions(regex, tuple(rank for rank, _ in found))
