"""Gitignore patterns, compiled so that a path is matched against many of them in one step.

Patterns without wildcards, and those like `*.log`, are looked up in a dictionary, so their number does not matter;
pathspec translates all others into regular expressions, which are combined into a few large ones.
"""

import errno
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_specialist.tools.sandbox.globs import full_match, without_backtracking

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

COMPILING = threading.Lock()
"""Held while patterns are compiled with the warnings of `re` suppressed."""
MOST_WILDCARDS = 100_000
"""Maximum total length of a file's wildcard patterns, except those like `*.log` [characters]; each of them costs time
for each path."""
_PATTERNS_PER_REGEX = 50
_NO_WILDCARD = re.compile(r"[^*?\[\\]+")
_EXTENSION = re.compile(r"\*\.[^*?\[\\/]+")


def spec_of(lines: Iterable[str]) -> "GitIgnoreSpec":
    """Compile gitignore patterns; invalid ones are skipped, as git does."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - slow to import, and many runs never need it
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - as above

    patterns: list[GitIgnoreSpecPattern] = []
    # All threads share the list of warning filters, and classes such as `[[:alpha:]]` make `re` warn.
    with COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in lines:
            try:
                regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
                if regex is not None:
                    patterns.append(GitIgnoreSpecPattern(re.compile(without_backtracking(regex), re.DOTALL), include))
            except (ValueError, re.error):
                continue
    return GitIgnoreSpec(patterns)


@dataclass(frozen=True, slots=True)
class _PatternGroup:
    """Several wildcard patterns in one regular expression, one group each, last pattern first."""

    regex: re.Pattern[str]
    ranks: Sequence[int]
    """Rank of each group, descending; `IgnoreFile` defines the rank."""


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """Patterns of one .gitignore, each with a rank: twice its line number, plus one if it hides entries."""

    plain: Mapping[str, int]
    """Rank by pattern: `name`, `/path/from/here` or `*.ext`; with a trailing `/` if for folders only."""
    names: Sequence[_PatternGroup]
    """Patterns for names at any depth, last first."""
    paths: Sequence[_PatternGroup]
    """Patterns for paths relative to the file's folder, last first."""

    def hides(self, relative: str, *, is_folder: bool) -> bool | None:
        """Return whether the last pattern that matches an entry hides it; None if none matches.

        relative: path relative to the file's folder; no folder in between is hidden.
        """
        name, slash = relative.rpartition("/")[2], "/" * is_folder
        rank = max(self.plain.get(key, -1) for key in _matching_keys(relative, name, slash)) if self.plain else -1
        for group, text in ((self.names, name + slash), (self.paths, relative + slash)):
            for expressions in group:
                if expressions.ranks[0] < rank:
                    break
                if match := expressions.regex.fullmatch(text):
                    rank = max(rank, expressions.ranks[(match.lastindex or 1) - 1])
                    break
        return None if rank < 0 else bool(rank % 2)


def _matching_keys(relative: str, name: str, slash: str) -> Iterator[str]:
    """Yield the patterns without wildcards, and those like `*.log`, that would match an entry."""
    found = [name, f"/{relative}"]
    dot = name.find(".")
    while dot >= 0:
        found.append(f"*{name[dot:]}")
        dot = name.find(".", dot + 1)
    yield from found
    if slash:
        yield from (f"{key}/" for key in found)


def ignore_file(lines: Iterable[str]) -> IgnoreFile:
    """Compile the lines of a .gitignore; invalid patterns are skipped, as git does.

    Raises OSError (EFBIG) for more wildcard patterns than can be matched in time.
    """
    plain: dict[str, int] = {}
    wildcards: list[tuple[int, str, bool]] = []
    for number, line in enumerate(lines):
        text = _strip_trailing(line)
        if not text or text[0] == "#":
            continue
        pattern = text.removeprefix("!")
        is_for_folders, body = pattern.endswith("/"), pattern.removesuffix("/")
        if body.startswith("**/") and "/" not in body[3:]:
            body = body[3:]
        rank = 2 * number + (not text.startswith("!"))
        if (key := _lookup_key(body)) is not None:
            plain[key + "/" * is_for_folders] = rank
        elif body:
            wildcards.append((rank, text, "/" not in body))
    if sum(len(text) for _, text, _ in wildcards) > MOST_WILDCARDS:
        raise OSError(errno.EFBIG, f"more than {MOST_WILDCARDS:,} characters of patterns with wildcards")
    wildcards.reverse()
    names = _compile_groups([(rank, text) for rank, text, is_name in wildcards if is_name], is_name=True)
    paths = _compile_groups([(rank, text) for rank, text, is_name in wildcards if not is_name], is_name=False)
    return IgnoreFile(plain, tuple(names), tuple(paths))


def _strip_trailing(line: str) -> str:
    """Remove trailing white space, but, like git, keep a space escaped by a backslash."""
    text = line.rstrip()
    escapes = len(text) - len(text.rstrip("\\"))
    return f"{text} " if escapes % 2 and line.startswith(f"{text} ") else text


def _lookup_key(body: str) -> str | None:
    """Return the dictionary key of a pattern; None if it needs a regular expression.

    body: the pattern without a leading `!` or a trailing `/`.
    """
    if _EXTENSION.fullmatch(body):
        return body
    if not _NO_WILDCARD.fullmatch(body):
        return None
    return f"/{body.removeprefix('/')}" if "/" in body else body


def _compile_groups(patterns: Sequence[tuple[int, str]], *, is_name: bool) -> Iterator[_PatternGroup]:
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
            found.append((rank, full_match(regex, is_name=is_name)))
    for start in range(0, len(found), _PATTERNS_PER_REGEX):
        yield from _compile_group(found[start : start + _PATTERNS_PER_REGEX])


def _compile_group(found: Sequence[tuple[int, str]]) -> Iterator[_PatternGroup]:
    """Combine regular expressions into one; those that `re` rejects are skipped."""
    try:
        with COMPILING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regex = re.compile("|".join(f"({regex})" for _, regex in found), re.DOTALL)
    except re.error:
        if len(found) > 1:
            for one in found:
                yield from _compile_group([one])
        return
    yield _PatternGroup(regex, tuple(rank for rank, _ in found))
