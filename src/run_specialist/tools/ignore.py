"""Gitignore patterns and rules, matched in bounded time.

Patterns without wildcards, and those like `*.log`, are looked up in a dictionary, so their number does not matter;
pathspec translates all others into regular expressions, which are combined into a few large ones.
"""

import errno
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Self

from run_specialist.safety.safe_files import Folder

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


_PatternGroup = tuple[re.Pattern[str], Sequence[int]]
"""Several wildcard patterns in one regular expression, one group each, last pattern first; the rank of each group,
descending, as `IgnoreFile` defines it."""


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
            for regex, ranks in group:
                if ranks[0] < rank:
                    break
                if match := regex.fullmatch(text):
                    rank = max(rank, ranks[(match.lastindex or 1) - 1])
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
        text = line.rstrip()
        escapes = len(text) - len(text.rstrip("\\"))
        if escapes % 2 and line.startswith(f"{text} "):
            # Like git, keep a space escaped by a backslash.
            text += " "
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
    yield regex, tuple(rank for rank, _ in found)


# Gitignore patterns as regular expressions without catastrophic backtracking.
#
# `*a*a*a*b` as `[^/]*a[^/]*a[^/]*a[^/]*b` backtracks exponentially on a name that does not match: minutes for a hundred
# characters, while `re` blocks the entire process. The leftmost match of a part leaves the most text for the parts
# after it, so backtracking into it is pointless; atomic groups prevent it, and matching takes nearly linear time.

_STAR, _ANY_ABOVE, _ANY_BETWEEN = "[^/]*", "(?:.+/)?", "(?:/.+)?"
_ENDS = ("(?:(?P<ps_d>/)|$)", "(?P<ps_d>/)", "")
_WHOLE_ENDS = {_ENDS[0]: "/?", _ENDS[1]: "/", _ENDS[2]: ".+"}
# Expressions that pathspec creates for `**`, `*/` and `*/**`.
_ANY_NAME = {".": ".+", "(?P<ps_d>/)": ".+/", "/": ".+/.+"}
# A character class, an escaped character, or what pathspec creates for stars.
_TOKEN = re.compile(r"\(\?:\.\+/\)\?|\(\?:/\.\+\)\?|\[\^/\][*+]?|\[(?:\\.|[^\]\\])+\]|\\.|[^()*+?]", re.DOTALL)


def without_backtracking(regex: str) -> str:
    """Rewrite a regular expression from pathspec to match the same paths without backtracking."""
    end = next(end for end in _ENDS if regex.endswith(end))
    body = regex.removeprefix("^").removesuffix(end)
    tokens = _TOKEN.findall(body)
    if not regex.startswith("^") or "".join(tokens) != body:
        # There are no stars, or the form is unknown: nothing to rewrite.
        return regex
    any_depth = tokens[:1] == [_ANY_ABOVE]
    blocks = [_block(block) for between, block in groupby(tokens[any_depth:], _ANY_BETWEEN.__eq__) if not between]
    if not blocks:
        return regex
    if len(blocks) == 1:
        return f"^{_ANY_ABOVE if any_depth else ''}{blocks[0]}{end}"
    first, *middle, last = blocks
    # A block ends at the end of a folder name; blocks after the first begin with the preceding `/`.
    parts = [
        f"(?>(?:.+?/)??{first}(?=/))" if any_depth else first,
        *(f"(?>(?:/.+?)??{block}(?=/))" for block in middle),
    ]
    return f"^{''.join(parts)}{_ANY_BETWEEN}{last}{end}"


def full_match(regex: str, *, is_name: bool) -> str:
    """Rewrite a regular expression from pathspec so that it matches the entire path of an entry, by `fullmatch`.

    pathspec also matches everything inside a folder that a pattern names; here the folder itself is matched before its
    entries, by its path with a trailing `/`. Compile with `re.DOTALL`, since names may contain line breaks.
    is_name: the pattern applies to names at any depth; the expression then matches only the name.
    """
    if regex in _ANY_NAME:
        return _ANY_NAME[regex]
    regex = without_backtracking(regex)
    end = next(end for end in _ENDS if regex.endswith(end))
    body = regex.removeprefix("^").removesuffix(end)
    return (body.removeprefix(_ANY_ABOVE) if is_name else body) + _WHOLE_ENDS[end]


def _block(tokens: Iterable[str]) -> str:
    """Return the expression for the part between two `**`, name by name."""
    return "".join("".join(name) if slash else _name(list(name)) for slash, name in groupby(tokens, "/".__eq__))


def _name(tokens: list[str]) -> str:
    # A character class must stay within a name; `[!a]` would match the next `/` too.
    tokens = [f"(?!/){token}" if token[0] == "[" and not token.startswith("[^/]") else token for token in tokens]
    parts = ["".join(part) for star, part in groupby(tokens, _STAR.__eq__) if not star]
    if tokens[0] == _STAR:
        parts.insert(0, "")
    if tokens[-1] == _STAR:
        parts.append("")
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    return first + "".join(f"(?>{_STAR}?{part})" for part in middle) + _STAR + last


LARGEST = 4_000_000
"""Maximum size of a .gitignore [bytes]; with a larger one, the folder cannot be read."""
_MAX_CACHED = 8_000_000
"""Maximum total size of the files cached in compiled form, which takes about ten times as much memory [bytes]."""
_COST_PER_FILE = 2_000
"""Fixed cost per cached file, added to its size [bytes]."""


@dataclass(frozen=True)
class IgnoreRules:
    """The .gitignore files from the root down to one folder; the nearest one with a matching pattern wins."""

    files: tuple[tuple[str, IgnoreFile], ...] = ()
    """Files with their folders: relative to the root and ending in `/`, or empty for the root."""

    def within(self, folder: Folder, relative: str) -> Self:
        """Return the rules that apply inside a folder.

        relative: path of the same folder relative to the root; empty for the root itself.
        Raises OSError if its .gitignore cannot be read or is too large, because its rules are then unknown.
        """
        base = f"{relative}/" if relative else ""
        try:
            content = _read(folder)
            return type(self)((*self.files, (base, _CACHE.get(content)))) if content else self
        except OSError as error:
            raise OSError(error.errno, f"{base}.gitignore: {error.strerror}") from error

    def hide(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether an entry is ignored, provided that no folder above it is."""
        for base, file in reversed(self.files):
            hides = file.hides(relative[len(base) :], is_folder=is_folder)
            if hides is not None:
                return hides
        return False


class _Cache:
    """Thread-safe cache of compiled .gitignore files by content, shared by all runs of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[bytes, IgnoreFile] = {}
        self._size = 0

    def get(self, content: bytes) -> IgnoreFile:
        """Return the compiled patterns of a .gitignore; raises OSError for too many."""
        found = self._files.get(content)
        if found is None:
            with self._lock:
                found = self._files.get(content) or self._compile(content)
        return found

    def _compile(self, content: bytes) -> IgnoreFile:
        # Git skips a byte order mark, and treats names as bytes.
        lines = os.fsdecode(content.removeprefix(b"\xef\xbb\xbf")).splitlines()
        found = self._files[content] = ignore_file(lines)
        self._size += len(content) + _COST_PER_FILE
        while self._size > _MAX_CACHED and len(self._files) > 1:
            oldest = next(iter(self._files))
            del self._files[oldest]
            self._size -= len(oldest) + _COST_PER_FILE
        return found


_CACHE = _Cache()


def _read(folder: Folder) -> bytes:
    """Return the content of a folder's .gitignore; empty if there is none that git would read."""
    try:
        # It may be a FIFO, or a symlink out of the tree; git does not follow symlinks here either.
        with folder.file(".gitignore") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        if error.errno == errno.EINVAL:
            return b""
        raise
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST // 1_000_000} MB")
    return content
