"""Gitignore patterns and rules, matched in bounded time.

Patterns without wildcards are looked up in a dictionary, so their number does not matter; all others become regular
expressions without catastrophic backtracking, combined into a few large ones.
"""

import errno
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Self

from run_specialist.errors import ToolError
from run_specialist.safety.safe_files import Folder

LARGEST = 4_000_000
"""Maximum size of a .gitignore [bytes]; with a larger one, the folder cannot be read."""
# Maximum total length of a file's patterns with wildcards [characters]; each of them costs time for each path.
_MOST_WILDCARDS = 100_000
# Size up to which many files are kept in compiled form, which takes about ten times as much memory [bytes].
_SMALL = 50_000
_COMPILING = threading.Lock()
_TOKEN = re.compile(r"(\*+)|\[([!^]?+)(\](?:\\.|[^\]\\])*|(?:\\.|[^\]\\])+)\]|\\(.)|(.)", re.DOTALL)


def compile_quietly(regex: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a regular expression without the warnings of `re`; all threads share the list of warning filters."""
    with _COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(regex, flags)


def compile_globs(globs: Iterable[str]) -> re.Pattern[str]:
    """Return the expression of all entries that gitignore patterns select, with everything inside of folders.

    It matches `/path`, with a `/` at the end of a folder; invalid patterns are skipped.
    """
    found = []
    for glob in globs:
        body = glob.removesuffix("/")
        anchored, inside = "/" in body, "(?:/.*)?" if body == glob else "/.*"
        # `a/**/` is `a/`: `**` stands for no folder, too.
        while body != glob and body.endswith("/**") and body != "/**":
            body = body.removesuffix("/**")
        with suppress(re.error):
            found.append(_path_regex(body if anchored else f"**/{body}") + inside)
    return compile_quietly("|".join(found) or "(?!)", re.DOTALL)


_MAX_WILDCARDS = 12


def pattern_spec(pattern: str) -> re.Pattern[str]:
    """Compile a glob: without a `/` it matches names at any depth, else paths from the root; `{a,b}` works.

    Raises ToolError for a glob with `..`, or with so many stars that matching could take too long.
    """
    # Braces multiply: each pair may double the alternatives.
    alternatives = list(islice(_expand_braces(pattern.removeprefix("./")), _MAX_WILDCARDS + 1))
    if ".." in PurePosixPath(pattern).parts:
        raise ToolError(f"the glob {pattern!r} leads out of the folder that you may read; leave out `..`")
    if any(item.count("*") > _MAX_WILDCARDS for item in alternatives) or len(alternatives) > _MAX_WILDCARDS:
        raise ToolError(f"the glob {pattern!r} has too many wildcards; at most {_MAX_WILDCARDS} are understood")
    return compile_globs(f"\\{item}" if item.startswith(("!", "#")) else item for item in alternatives)


def _expand_braces(pattern: str) -> Iterator[str]:
    head, opened, rest = pattern.partition("{")
    middle, closed, tail = rest.partition("}")
    if not (opened and closed and "," in middle):
        yield pattern
        return
    for choice in middle.split(","):
        for end in _expand_braces(tail):
            yield f"{head}{choice}{end}"


# `*a*a*a*b` as `[^/]*a[^/]*a[^/]*a[^/]*b` backtracks exponentially on a name that does not match: minutes for a hundred
# characters, while `re` blocks the entire process. The leftmost match of a part leaves the most text for the parts
# after it, so backtracking into it is pointless; atomic groups prevent it, and matching takes nearly linear time.


def _path_regex(glob: str) -> str:
    """Return an expression for a path that begins with `/`; raises re.error for an invalid pattern."""
    blocks = [""]
    for name in glob.removeprefix("/").split("/"):
        if name == "**":
            blocks.append("")
        else:
            blocks[-1] += f"/{_name_regex(name)}"
    first, *others = blocks
    if not others:
        return first
    *middle, last = others
    # Between two `**`, a block ends at the end of a folder name.
    between = "".join(f"(?>(?:/.+?)??{block}(?=/))" for block in middle if block)
    return f"{first}{between}{f'(?:/.+)?{last}' if last else '/.+'}"


def _name_regex(glob: str) -> str:
    """Return an expression for one name in a path; raises re.error for an invalid pattern."""
    parts = [""]
    for stars, negation, members, escaped, plain in _TOKEN.findall(glob):
        if stars:
            parts.append("")
        elif members:
            content = re.sub(r"\\(.)", lambda found: re.escape(found[1]), members, flags=re.DOTALL)
            characters = f"[{'^' if negation else ''}{content}]"
            compile_quietly(characters)
            # `[!a]` would match a `/`, too.
            parts[-1] += f"(?!/){characters}"
        elif plain in {"[", "\\"}:
            raise re.error("unfinished")
        else:
            parts[-1] += "[^/]" if plain == "?" else re.escape(escaped or plain)
    return "[^/]+" if len(parts) > 1 and not any(parts) else join_by_stars(parts, "[^/]")


def join_by_stars(parts: Sequence[str], character: str) -> str:
    """Return an expression for parts with any number of characters between them."""
    first, *others = parts
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>{character}*?{part})" for part in middle if part) + f"{character}*{last}"


class IgnoreFile:
    """Patterns of one .gitignore, each with a rank: twice its line number, plus one if it hides entries."""

    def __init__(self, content: bytes) -> None:
        """Compile a .gitignore; invalid patterns are skipped, as git does.

        Raises OSError (EFBIG) for more wildcard patterns than can be matched in time.
        """
        # Rank by pattern without wildcards: `/name` at any depth, or `//path/here`; ends in `/` if for folders.
        self._plain: dict[str, int] = {}
        # Consecutive patterns in one expression, last first: whether they match names at any depth instead of paths;
        # the expression, with a group for each pattern; the rank of each group.
        self._wildcards: list[tuple[bool, re.Pattern[str], list[int]]] = []
        wildcards: list[tuple[bool, int, str]] = []
        size = 0
        # Git skips a byte order mark, and treats names as bytes.
        for number, line in enumerate(os.fsdecode(content.removeprefix(b"\xef\xbb\xbf")).split("\n")):
            text = line.rstrip()
            if (len(text) - len(text.rstrip("\\"))) % 2 and line.startswith(f"{text} "):
                # Like git, keep a space escaped by a backslash.
                text += " "
            pattern = text.removeprefix("!")
            body = pattern.removesuffix("/")
            if not body or text[0] == "#":
                continue
            rank, is_name = 2 * number + (text[0] != "!"), "/" not in body
            if not re.search(r"[*?\[\\]", body):
                self._plain[f"{'/' if is_name else '//'}{pattern.removeprefix('/')}"] = rank
                continue
            size += len(text)
            if size > _MOST_WILDCARDS:
                raise OSError(errno.EFBIG, f"more than {_MOST_WILDCARDS:,} characters of patterns with wildcards")
            with suppress(re.error):
                regex = f"/{_name_regex(body)}" if is_name else _path_regex(body)
                wildcards.append((is_name, rank, regex + ("/?" if body == pattern else "/")))
        for is_name, found in groupby(reversed(wildcards), itemgetter(0)):
            while some := list(islice(found, 50)):
                combined = compile_quietly("|".join(f"({regex})" for _, _, regex in some), re.DOTALL)
                self._wildcards.append((is_name, combined, [rank for _, rank, _ in some]))

    def hides(self, relative: str, *, is_folder: bool) -> bool | None:
        """Return whether the last pattern that matches an entry hides it; None if none matches.

        relative: path relative to the file's folder; no folder in between is hidden.
        """
        name, slash = f"/{relative.rpartition('/')[2]}", "/" * is_folder
        rank = max(self._plain.get(key, -1) for key in (name, f"//{relative}", name + slash, f"//{relative}{slash}"))
        for is_name, regex, ranks in self._wildcards:
            if ranks[0] < rank:
                break
            if match := regex.fullmatch((name if is_name else f"/{relative}") + slash):
                rank = max(rank, ranks[(match.lastindex or 1) - 1])
                break
        return None if rank < 0 else bool(rank % 2)


# A .gitignore is compiled once for all runs, as long as its content is the same.
_compiled_small = lru_cache(256)(IgnoreFile)
_compiled_large = lru_cache(4)(IgnoreFile)


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
            # It may be a FIFO, or a symlink out of the tree; git does not follow symlinks here either.
            with folder.file(".gitignore") as file:
                content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise OSError(errno.EFBIG, f"larger than {LARGEST // 1_000_000} MB")  # noqa: TRY301 - as the system does
            compiled = (_compiled_small if len(content) < _SMALL else _compiled_large)(content)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.EINVAL}:
                return self
            raise OSError(error.errno, f"{base}.gitignore: {error.strerror}") from error
        return type(self)((*self.files, (base, compiled)))

    def hide(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether an entry is ignored, provided that no folder above it is."""
        for base, file in reversed(self.files):
            hides = file.hides(relative[len(base) :], is_folder=is_folder)
            if hides is not None:
                return hides
        return False
