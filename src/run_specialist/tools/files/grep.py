"""Regular expression search, with ripgrep if it is installed, otherwise with Python."""

import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.tools.files.search_process import run
from run_specialist.tools.sandbox import linescan
from run_specialist.tools.sandbox.ignore import COMPILING
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path
from run_specialist.tools.sandbox.text import clip, text_lines
from run_specialist.tools.threads import is_cancelled

TIMEOUT = 10.0
"""Timeout of one search; the result then says that the search was stopped [s]."""
_BATCH = 100_000 if os.name == "posix" else 20_000
"""Maximum size of the paths on one command line [bytes]; Windows limits a command line to 32,767 characters."""
_ERROR = 2
# ripgrep omits the column of an empty match at the end of a file.
_MATCH = re.compile(rb"(.*?)\0(\d+):(?:(\d+):)?[^\n]*\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Match:
    """First match in one line."""

    path: str
    line: int
    """Line number, from 1."""
    column: int
    """Column of the match, from 1 [bytes of UTF-8]."""


@dataclass(frozen=True, slots=True)
class GrepResult:
    """Result of a search."""

    matches: tuple[Match, ...]
    cut: bool
    """Whether there are more matches than requested."""
    stopped: str
    """Why the search stopped before all files were read; empty if it did not."""


def check_pattern(pattern: str) -> None:
    """Raise ToolError, with the position, if a pattern is not a valid Python regular expression."""
    try:
        # All threads share the list of warning filters.
        with COMPILING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        where = getattr(error, "pos", None)
        reason = f"{getattr(error, 'msg', error)}{'' if where is None else f' at position {where}'}"
        raise ToolError(
            f"{pattern!r} is no regular expression: {reason}; escape ( [ {'{'} . * + ? with \\ to mean themselves"
        ) from error


def find(sandbox: Sandbox, pattern: str, paths: Iterable[str], *, ignore_case: bool, limit: int) -> GrepResult:
    """Find matching lines, in order of path and line.

    paths: text files relative to the root; both engines read exactly these files.
    limit: maximum number of matches to return.
    Raises ToolError if no engine can be run.
    """
    deadline = time.monotonic() + TIMEOUT
    options = (pattern, ignore_case, limit + 1)
    ripgrep = shutil.which("rg")
    # A relative path means that PATH contains `.`: the program could then be a file of the root.
    engines = [_ripgrep_command(ripgrep, *options)] if ripgrep and Path(ripgrep).is_absolute() else []
    engines.append(_python_command(*options))
    matches: list[Match] = []
    for batch in _batches(paths):
        output, stopped = _search(engines, batch, sandbox.root, deadline)
        matches += [
            Match(os.fsdecode(path).removeprefix("./"), int(line), int(column or 1))
            for path, line, column in map(re.Match.groups, islice(_MATCH.finditer(output), limit + 1))
        ]
        if stopped or len(matches) > limit:
            return GrepResult(tuple(matches[:limit]), cut=len(matches) > limit, stopped=stopped)
    return GrepResult(tuple(matches), cut=False, stopped="")


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    """Split paths into batches that fit on a command line."""
    batch: list[str] = []
    size = 0
    for path in paths:
        length = len(os.fsencode(path)) + 3
        if size + length > _BATCH and batch:
            yield batch
            batch, size = [], 0
        batch.append(f"./{path}")
        size += length
    if batch:
        yield batch


def _ripgrep_command(program: str, pattern: str, ignore_case: bool, max_count: int) -> list[str]:  # noqa: FBT001 - see `find`
    # The caller has chosen the files, so ripgrep must not apply its own ignore rules.
    command = [program, "--no-config", "--no-ignore", "--hidden", "--text", "--no-messages", "--threads=1"]
    command += ["--color=never", "--no-heading", "--with-filename", "--null", "--line-number", "--column"]
    command += ["--crlf", "--max-columns=1", f"--max-count={max_count}"]
    return [*command, "--ignore-case" if ignore_case else "--case-sensitive", f"--regexp={pattern}", "--"]


def _python_command(pattern: str, ignore_case: bool, max_count: int) -> list[str]:  # noqa: FBT001 - see `find`
    flags = re.IGNORECASE if ignore_case else 0
    return [sys.executable, "-I", "-S", linescan.__file__, pattern, str(int(flags)), str(max_count)]


def _search(engines: Sequence[list[str]], paths: Sequence[str], root: Path, deadline: float) -> tuple[bytes, str]:
    """Search one batch of files; return the output, and why the search stopped early, or an empty string."""
    if is_cancelled():
        return b"", "because nobody waits for it"
    command, *others = engines
    try:
        output, code = run([*command, *paths], root, max(0.1, deadline - time.monotonic()))
    except (OSError, ValueError) as error:
        raise ToolError(f"the search could not be run: {error}") from error
    if code is None:
        return output, f"after {TIMEOUT:g} s"
    # ripgrep also exits with 2 if it could not read some of the files.
    if code in {0, 1} or (code == _ERROR and output):
        return output, ""
    if others and code > 0 and not output:
        # ripgrep does not support this pattern, e.g. a lookahead.
        return _search(others, paths, root, deadline)
    if code < 0 or code == linescan.SEARCH_FAILED:
        return output, "by a limit of time or memory"
    raise ToolError(f"the search could not be run: {Path(command[0]).name} exited with code {code}")


def render(sandbox: Sandbox, matches: Sequence[Match], context: int) -> Iterator[str]:
    """Yield `path:line: text` for matches and `path-line- text` for the lines around them."""
    by_path: dict[str, dict[int, int]] = {}
    for match in matches:
        by_path.setdefault(match.path, {})[match.line] = match.column
    first = True
    for path, columns in by_path.items():
        wanted = {line + step for line in columns for step in range(-context, context + 1)}
        last = None
        with suppress(ToolError), text_lines(sandbox, path) as text:
            for number, (line, length) in enumerate(islice(text.lines, max(wanted)), 1):
                if number not in wanted:
                    continue
                if context and not first and number - 1 != last:
                    yield "--"
                first, last = False, number
                mark = ":" if number in columns else "-"
                start = len(line.encode("utf-8", "replace")[: columns.get(number, 1) - 1].decode("utf-8", "ignore"))
                yield f"{escape_path(path)}{mark}{number}{mark} {clip(line, length, start)}"
