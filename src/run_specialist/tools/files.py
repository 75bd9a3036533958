"""The file tools: `search`, `grep`, `glob`, `read` and `ls`."""

import difflib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import Annotated

from pydantic import Field

from run_specialist.errors import ToolError, errors_as
from run_specialist.tools import scripts
from run_specialist.tools.base import Tool
from run_specialist.tools.edit import WorkingCopy
from run_specialist.tools.ignore import compile_quietly, pattern_spec
from run_specialist.tools.sandbox import CLIP, Entry, Sandbox, entries, escape_path, files, fit, text_lines
from run_specialist.tools.search import Hit, SearchIndex, content_terms, stems
from run_specialist.tools.threads import is_cancelled, run

_DESCRIPTIONS = {
    "search": (
        "Ranked full-text search over all files: start here. Takes a question or its key words and returns the best "
        "passages as `path:line: text`, enough to judge them, and often to answer, without reading a file. Word "
        "endings do not matter; identifiers and versions are found as they stand; words that stand in no file are "
        "named. If it does not help, search again in other words. Never read file after file."
    ),
    "grep": (
        "Find every line that matches a regular expression, as `path:line: text`. For an exact name, number or phrase, "
        "or to learn whether something stands anywhere; for questions use `search`."
    ),
    "glob": (
        "List files by name, in alphabetical order of their paths. `**` spans folders; a pattern without `/` matches "
        "file names in every folder. To find what files say use `search`."
    ),
    "read": (
        "Read some lines of one file. Find the place with `search` or `grep` first, then read only the lines around it "
        "(offset = line - 10, limit = 40): not the whole file, and not one file after another."
    ),
    "ls": (
        "List one folder: folders first, with their number of entries, then files with size and number of lines. "
        "To find something use `search`; it sees all folders at once."
    ),
}


def file_tools(
    root: Path, paths: Sequence[str] = (), result_limit: int = 20_000, copy: WorkingCopy | None = None
) -> list[Tool]:
    """Return the five file tools.

    paths: folders or globs under the root; if given, all other files are invisible.
    result_limit: maximum length of one result [characters].
    copy: the files that a run has read and changed; None for a run that cannot change files.
    Raises UsageError if one of `paths` is outside the root.
    """
    tools = _FileTools(Sandbox(root, paths), result_limit, copy)
    # After a change the same call has another result.
    same = copy is None
    return [Tool(name, text, getattr(tools, name), repeatable=same) for name, text in _DESCRIPTIONS.items()]


class _FileTools:
    """Functions of the tools; thread-safe."""

    def __init__(self, sandbox: Sandbox, result_limit: int, copy: WorkingCopy | None) -> None:
        self._sandbox = sandbox
        self._index = SearchIndex(sandbox, lambda: 0 if copy is None else copy.changes)
        self._limit = result_limit
        self._copy = copy

    def search(
        self,
        query: Annotated[str, Field(description="A question or key words; rare words count most.")],
        limit: Annotated[int, Field(ge=1, le=50, description="How many passages to return.")] = 10,
    ) -> str:
        """Return the best passages for a question."""
        self._sandbox.require_root()
        hits = self._index.search(query, limit)
        lines = list(hit_lines(hits.best, query))
        notes = []
        if counted := comma_list(f"{word} {count}" for word, count in hits.counts.items() if count):
            notes.append(f"[{hits.unit} per word: {counted}]")
        if absent := comma_list(word for word, count in hits.counts.items() if not count):
            notes.append(f"[in no file: {absent}]")
        if not self._index.complete:
            notes.append(f"[only the first {self._index.files} files were searched: the root is too large; use grep]")
        if skipped := self._index.skipped:
            notes.append(
                f"[large files not searched: {len(skipped)}, such as {escape_path(skipped[0])[-40:]}; use grep]"
            )
        if not hits.best:
            notes.append(f"[nothing found in {self._index.files} files; use other words, or grep for a part of one]")

        among = f"{hits.total} {hits.unit}" if hits.unit == "passages" else f"the passages of {hits.total} files"

        def note(taken: int) -> str:
            cut = "" if taken == len(lines) else ", cut"
            how = "read(path, offset=line-10, limit=40) shows more"
            best = f"[{len(hits.best)} best of {among}{cut}; {how}]"
            return "\n".join([*notes, best] if hits.best else notes)

        return fit(lines, self._limit, note)

    def grep(  # noqa: PLR0913, PLR0917 - chosen by a model, always by keyword
        self,
        pattern: Annotated[
            str, Field(min_length=1, max_length=1000, description="A regular expression, matched line by line.")
        ],
        path: Annotated[str | None, Field(description="Look only in this file or folder.")] = None,
        glob: Annotated[str | None, Field(description="Look only in files that match, e.g. `*.md`.")] = None,
        ignore_case: Annotated[bool, Field(description="Take upper and lower case as equal.")] = False,  # noqa: FBT002 - called by keyword
        context: Annotated[int, Field(ge=0, le=20, description="Lines to show before and after each match.")] = 0,
        limit: Annotated[int, Field(ge=1, le=1000, description="How many matching lines to return.")] = 50,
    ) -> str:
        """Return the lines that match a pattern."""
        check_pattern(pattern)
        chosen = [file for file in self._matching(path, glob) if is_text(self._sandbox, file)]
        matches, stopped = find(self._sandbox, pattern, chosen, ignore_case=ignore_case, limit=limit)
        lines = list(render(self._sandbox, matches[:limit], context))

        def note(taken: int) -> str:
            if stopped:
                return f"[stopped {stopped}; use a simpler pattern, or narrow it with path or glob]"
            if not matches:
                return f"[no line matches in {len(chosen)} text files; try ignore_case, a shorter pattern, or search]"
            if len(matches) > limit or taken < len(lines):
                return "[there are more; narrow it with path, glob or a longer pattern, or raise limit]"
            return ""

        return fit(lines, self._limit, note)

    def glob(
        self,
        pattern: Annotated[
            str, Field(min_length=1, max_length=300, description="E.g. `docs/**/*.{md,rst}`, `*plan*`.")
        ],
        limit: Annotated[int, Field(ge=1, le=2000, description="How many paths to return.")] = 200,
    ) -> str:
        """Return the paths that match a pattern."""
        found = list(islice(self._matching(None, pattern), limit + 1))

        def note(taken: int) -> str:
            if not found:
                return "[no file matches; try a shorter pattern such as `*word*`]"
            return f"[the first {taken}; narrow the pattern to see others]" if taken < len(found) else ""

        return fit(map(escape_path, found[:limit]), self._limit, note)

    def read(
        self,
        path: Annotated[str, Field(description="A file, as the other tools print its path.")],
        offset: Annotated[int, Field(ge=1, description="The first line to return, from 1.")] = 1,
        limit: Annotated[int, Field(ge=1, le=2000, description="How many lines to return.")] = 200,
    ) -> str:
        """Return numbered lines of a file."""
        # `islice` takes no larger number.
        offset = min(offset, sys.maxsize)
        relative = self._existing(path)
        if (self._sandbox.root / relative).is_dir():
            raise ToolError(f"{escape_path(path)} is a folder; use ls to see what is in it")
        content = None if self._copy is None else self._copy.readable(relative)
        # One line takes at most a quarter of the result; a single requested line is not clipped.
        most = max(CLIP, min(_READ_CLIP, self._limit // 4))
        with text_lines(self._sandbox, relative, content) as (lines, size):
            before = sum(1 for _ in islice(lines, offset - 1))
            chosen = [
                f"{number:>6}\t{line if limit == 1 else clip(line, length, most=most)}"
                for number, (line, length) in enumerate(islice(lines, limit), offset)
            ]
            total = count_lines(lines, size, before + len(chosen))
        if not chosen and before:
            raise ToolError(f"{escape_path(path)} ends before line {offset}; it has {total} lines")
        if self._copy is not None and content is not None:
            self._copy.knows(relative, content)

        def note(taken: int) -> str:
            last = offset + taken - 1
            if not chosen:
                return "[the file is empty]"
            more = f"; read on with offset={last + 1}" if last != total else ""
            return f"[lines {offset}-{last} of {total}{more}]"

        return fit(chosen, self._limit, note)

    def ls(self, path: Annotated[str, Field(description="A folder; `.` for the root.")] = ".") -> str:
        """List a folder."""
        relative = self._existing(path)
        if not (self._sandbox.root / relative).is_dir():
            raise ToolError(f"{escape_path(path)} is no folder; use read to see what it says")
        with errors_as(ToolError, f"{escape_path(path)} cannot be listed", OSError):
            found = entries(self._sandbox, relative)
        found.sort(key=lambda entry: (entry.kind != "folder", entry.relative))

        def note(taken: int) -> str:
            if not found:
                return "[the folder is empty, or all in it is hidden]"
            return f"[{taken} of {len(found)} entries; use glob to see others]" if taken < len(found) else ""

        return fit((describe(self._sandbox, entry) for entry in found), self._limit, note)

    def _existing(self, path: str) -> str:
        relative = self._sandbox.locate(path)
        is_there = os.path.lexists(self._sandbox.root / relative)
        if not is_there and not (self._copy and self._copy.keeps(relative)):
            raise ToolError(f"{escape_path(path)} does not exist{similar_hint(self._sandbox, relative)}")
        return relative

    def _matching(self, path: str | None, glob: str | None) -> Iterator[str]:
        """Yield the files below a path whose path matches a glob; None for no restriction."""
        self._sandbox.require_root()
        start = self._existing(path) if path else ""
        spec = pattern_spec(glob.removeprefix(f"{self._sandbox.root.as_posix()}/")) if glob else None
        return (file for file in files(self._sandbox, start) if spec is None or spec.fullmatch(f"/{file}"))


TIMEOUT = 10.0
"""Timeout of one search; the result then says that the search was stopped [s]."""
# Maximum size of the paths on one command line [bytes].
_BATCH = 100_000
_ERROR = 2
# ripgrep omits the column of an empty match at the end of a file.
_MATCH = re.compile(rb"(.*?)\0(\d+):(?:(\d+):)?[^\n]*\n", re.DOTALL)


Match = tuple[str, int, int]
"""First match in one line: path, line number from 1, and column from 1 [bytes of UTF-8]."""


def check_pattern(pattern: str) -> None:
    """Raise ToolError, with the position, if a pattern is not a valid Python regular expression."""
    try:
        compile_quietly(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        where = getattr(error, "pos", None)
        reason = f"{getattr(error, 'msg', error)}{'' if where is None else f' at position {where}'}"
        raise ToolError(
            f"{pattern!r} is no regular expression: {reason}; escape ( [ {'{'} . * + ? with \\ to mean themselves"
        ) from error


def find(
    sandbox: Sandbox, pattern: str, paths: Sequence[str], *, ignore_case: bool, limit: int
) -> tuple[list[Match], str]:
    """Find matching lines, in order of path and line; return why the search stopped early, too, or an empty string.

    paths: text files relative to the root; both engines read exactly these files.
    limit: number of matches after which no more files are searched; a few more may be returned.
    Raises ToolError if no engine can be run.
    """
    deadline = time.monotonic() + TIMEOUT
    most = str(limit + 1)
    flags = re.IGNORECASE if ignore_case else 0
    engines = [[sys.executable, "-I", "-S", scripts.__file__, "scan", pattern, str(int(flags)), most]]
    ripgrep = shutil.which("rg")
    # A relative path means that PATH contains `.`: the program could then be a file of the root.
    if ripgrep and Path(ripgrep).is_absolute():
        # The caller has chosen the files, so ripgrep must not apply its own ignore rules.
        command = [ripgrep, "--no-config", "--no-ignore", "--hidden", "--text", "--no-messages", "--threads=1"]
        command += ["--color=never", "--no-heading", "--with-filename", "--null", "--line-number", "--column"]
        command += ["--crlf", "--max-columns=1", f"--max-count={most}"]
        command += ["--ignore-case" if ignore_case else "--case-sensitive", f"--regexp={pattern}", "--"]
        engines.insert(0, command)
    matches: list[Match] = []
    # As many paths at a time as fit on a command line.
    sizes = accumulate(len(os.fsencode(path)) + 3 for path in paths)
    for _, batch in groupby(zip(paths, sizes, strict=True), lambda both: both[1] // _BATCH):
        output, stopped = _search(engines, [f"./{path}" for path, _ in batch], sandbox.root, deadline)
        matches += [
            (os.fsdecode(path).removeprefix("./"), int(line), int(column or 1))
            for path, line, column in map(re.Match.groups, islice(_MATCH.finditer(output), limit + 1))
        ]
        if stopped or len(matches) > limit:
            return matches, stopped
    return matches, ""


def _search(engines: Sequence[list[str]], paths: Sequence[str], root: Path, deadline: float) -> tuple[bytes, str]:
    """Search one batch of files; return the output, and why the search stopped early, or an empty string."""
    if is_cancelled():
        return b"", "because nobody waits for it"
    command, *others = engines
    with errors_as(ToolError, "the search could not be run", OSError, ValueError):
        output, code = run([*command, *paths], root, max(0.1, deadline - time.monotonic()))
    if code is None:
        return output, f"after {TIMEOUT:g} s"
    # ripgrep also exits with 2 if it could not read some of the files.
    if code in {0, 1} or (code == _ERROR and output):
        return output, ""
    if others and code > 0 and not output:
        # ripgrep does not support this pattern, e.g. a lookahead.
        return _search(others, paths, root, deadline)
    if code < 0 or code == scripts.SEARCH_FAILED:
        return output, "by a limit of time or memory"
    raise ToolError(f"the search could not be run: {Path(command[0]).name} exited with code {code}")


def render(sandbox: Sandbox, matches: Sequence[Match], context: int) -> Iterator[str]:
    """Yield `path:line: text` for matches and `path-line- text` for the lines around them."""
    by_path: dict[str, dict[int, int]] = {}
    for path, line, column in matches:
        by_path.setdefault(path, {})[line] = column
    first = True
    for path, columns in by_path.items():
        wanted = {line + step for line in columns for step in range(-context, context + 1)}
        last = None
        with suppress(ToolError), text_lines(sandbox, path) as (lines, _):
            for number, (content, length) in enumerate(islice(lines, max(wanted)), 1):
                if number not in wanted:
                    continue
                if context and not first and number - 1 != last:
                    yield "--"
                first, last = False, number
                mark = ":" if number in columns else "-"
                start = len(content.encode("utf-8", "replace")[: columns.get(number, 1) - 1].decode("utf-8", "ignore"))
                yield f"{escape_path(path)}{mark}{number}{mark} {clip(content, length, start)}"


# Maximum length of a line that is read among others: many notes have one paragraph per line [characters].
_READ_CLIP = 2_000
_KILO = 1024
_WINDOW = 8
_MAX_NOTE = 150


def hit_lines(hits: Sequence[Hit], query: str) -> Iterator[str]:
    """Yield the heading and the best lines of each passage, with an empty line between passages."""
    wanted = stems(" ".join(content_terms(query)))
    for position, (path, passage) in enumerate(hits):
        if position:
            yield ""
        lines = passage.lines
        # The first window of consecutive lines that contains the most wanted stems.
        counts = [len(wanted & stems(text)) for _, text in lines]
        sums = [sum(counts[first : first + _WINDOW]) for first in range(max(1, len(lines) - _WINDOW + 1))]
        start = sums.index(max(sums))
        for number, text in (*passage.headings[-1:], *lines[start : start + _WINDOW]):
            yield f"{escape_path(path)}:{number}: {text}"


def comma_list(words: Iterable[str]) -> str:
    """Join words with commas, as many as fit in a note."""
    text = ""
    for word in words:
        if len(text) + len(word) > _MAX_NOTE:
            return f"{text}, …" if text else ""
        text = f"{text}, {word}" if text else word
    return text


def describe(sandbox: Sandbox, entry: Entry) -> str:
    """Return one line of a folder listing."""
    name = escape_path(entry.name)
    if entry.kind == "special":
        return f"{name}  (no regular file; cannot be read)"
    size = 0
    try:
        if entry.kind == "link":
            return f"{name} -> {escape_path(sandbox.locate(entry.relative)) or '.'}"
        if entry.kind == "folder":
            found = len(entries(sandbox, entry.relative))
            return f"{name}/  {found} {'entry' if found == 1 else 'entries'}"
        size = sandbox.size(entry.relative)
        with text_lines(sandbox, entry.relative) as (lines, length):
            count = count_lines(lines, length, 0)
        note = f"{count} {'line' if count == 1 else 'lines'}"
    except OSError:
        return f"{name}/  unreadable" if entry.kind == "folder" else f"{name}  (is gone by now)"
    except ToolError as error:
        if entry.kind == "link":
            return f"{name} -> (leads to what you may not read)"
        note = "binary" if "binary" in str(error) else "unreadable"
    amount = f"{size} B" if size < _KILO else f"{size / _KILO:.1f} KB"
    return f"{name}  {amount if size < _KILO**2 else f'{size / _KILO**2:.1f} MB'}  {note}"


_MAX_COUNTED = 10_000_000


def similar_hint(sandbox: Sandbox, relative: str) -> str:
    """Return a hint with files whose names resemble that of a missing file; may be empty."""
    wanted = relative.rpartition("/")[2].casefold()
    names: dict[str, list[str]] = {}
    for path in islice(files(sandbox), 20_000):
        names.setdefault(path.rpartition("/")[2].casefold(), []).append(path)
    similar = difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)
    found = [path for name in similar for path in names[name]][:3]
    return f"; did you mean {' or '.join(map(escape_path, found))}?" if found else ""


def is_text(sandbox: Sandbox, relative: str) -> bool:
    """Return whether a file can be read and looks like text."""
    with suppress(OSError), sandbox.open(relative) as file:
        return scripts.encoding_of(file.read(scripts.DETECTION_SIZE) or b"") is not None
    return False


def count_lines(remaining: Iterator[tuple[str, int]], size: int, read: int) -> int | str:
    """Return the number of lines of a partly read file; `many` for a large file, which is not read to its end."""
    if size <= _MAX_COUNTED:
        return read + sum(1 for _ in remaining)
    return read if next(remaining, None) is None else "many"


def clip(line: str, length: int, start: int = 0, *, most: int = CLIP) -> str:
    """Clip a line that is too long to be shown among others, with a note.

    length: original length of the line [characters].
    start: first character that must be visible.
    most: maximum length without the note, at least CLIP, because shorter lines are not masked [characters].
    """
    if length <= most:
        return line
    begin = max(0, min(start, len(line)) - most // 4)
    mark = "… " if begin else ""
    return f"{mark}{line[begin : begin + most]} … [clipped: {length} characters; read it alone with limit=1]"


# Read what these tools print. A program that acts on a result has it as text only: a stored run and a replay, too.

ShownLine = tuple[str, int, str]
"""Path, line number, and text."""
_FOUND = re.compile(r"(.+?):(\d+): (.*)")
# Not for all results: a path may look like the beginning of such a line.
_FOUND_OR_AROUND = re.compile(r"(.+?)(?::(?=\d+:)|-(?=\d+-))(\d+)[:-] (.*)")
_NUMBERED = re.compile(r" *(\d+)\t(.*)")
_CLIP_MARKS = re.compile(r"^… | …(?: \[clipped: .*\])?$")
_NOTE = re.compile(r"^\[(.+?): (.*)\]$", re.MULTILINE)


def shown_lines(result: str, read: str | None = None, *, around: bool = False) -> Iterator[ShownLine]:
    """Yield the lines that a result shows.

    read: path of the file for a result of `read`; None for a result of `search` or `grep`.
    around: whether a result of `grep` may show lines around its matches.
    """
    pattern = _FOUND_OR_AROUND if around else _FOUND
    for row in result.split("\n"):
        if read is None and (found := pattern.fullmatch(row)):
            yield found[1], int(found[2]), found[3]
        elif read is not None and (found := _NUMBERED.fullmatch(row)):
            yield read, int(found[1]), found[2]


def unclipped(text: str) -> str:
    """Return a shown line without the marks of a line that is clipped or split."""
    return _CLIP_MARKS.sub("", text)


def word_counts(result: str) -> tuple[dict[str, int], str]:
    """Return how many passages or files contain each word, as a search notes it, and its note of absent words."""
    notes = dict(_NOTE.findall(result))
    counted = next((words for kind, words in notes.items() if kind.endswith("per word")), "")
    counts = (item.rpartition(" ") for item in counted.split(", "))
    return {word: int(count) for word, _, count in counts if count.isdecimal()}, notes.get("in no file", "")
