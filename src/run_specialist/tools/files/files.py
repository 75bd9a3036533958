"""The file tools search, grep, glob, read and ls, confined to one root folder."""

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.tools.base import Tool
from run_specialist.tools.editing.working_copy import WorkingCopy
from run_specialist.tools.files import grep as by_pattern
from run_specialist.tools.files.present import comma_list, describe, hit_lines, numbered
from run_specialist.tools.sandbox.listing import entries, files, pattern_spec, similar_hint
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path
from run_specialist.tools.sandbox.text import count_lines, fit, is_text, text_lines
from run_specialist.tools.search.index import SearchIndex

_SEARCH = (
    "Ranked full-text search over all files: start here. Takes a question or its key words and returns the best "
    "passages as `path:line: text`, enough to judge them, and often to answer, without reading a file. Word endings "
    "do not matter; identifiers and versions are found as they stand; words that stand in no file are named. If it "
    "does not help, search again in other words. Never read file after file."
)
_GREP = (
    "Find every line that matches a regular expression, as `path:line: text`. For an exact name, number or phrase, "
    "or to learn whether something stands anywhere; for questions use `search`."
)
_GLOB = (
    "List files by name, in alphabetical order of their paths. `**` spans folders; a pattern without `/` matches "
    "file names in every folder. To find what files say use `search`."
)
_READ = (
    "Read some lines of one file. Find the place with `search` or `grep` first, then read only the lines around it "
    "(offset = line - 10, limit = 40): not the whole file, and not one file after another."
)
_LS = (
    "List one folder: folders first, with their number of entries, then files with size and number of lines. "
    "To find something use `search`; it sees all folders at once."
)


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
    return [
        Tool("search", _SEARCH, tools.search, repeatable=same),
        Tool("grep", _GREP, tools.grep, repeatable=same),
        Tool("glob", _GLOB, tools.glob, repeatable=same),
        Tool("read", _READ, tools.read, repeatable=same),
        Tool("ls", _LS, tools.ls, repeatable=same),
    ]


class _FileTools:
    """Functions of the tools; thread-safe."""

    def __init__(self, sandbox: Sandbox, result_limit: int, copy: WorkingCopy | None) -> None:
        self._sandbox = sandbox
        self._index = SearchIndex(sandbox, None if copy is None else lambda: copy.changes)
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
            str,
            Field(min_length=1, max_length=1000, description="A regular expression, matched line by line."),
        ],
        path: Annotated[str | None, Field(description="Look only in this file or folder.")] = None,
        glob: Annotated[str | None, Field(description="Look only in files that match, e.g. `*.md`.")] = None,
        ignore_case: Annotated[bool, Field(description="Take upper and lower case as equal.")] = False,  # noqa: FBT002 - called by keyword
        context: Annotated[int, Field(ge=0, le=20, description="Lines to show before and after each match.")] = 0,
        limit: Annotated[int, Field(ge=1, le=1000, description="How many matching lines to return.")] = 50,
    ) -> str:
        """Return the lines that match a pattern."""
        by_pattern.check_pattern(pattern)
        chosen = [file for file in self._matching(path, glob) if is_text(self._sandbox, file)]
        found = by_pattern.find(self._sandbox, pattern, chosen, ignore_case=ignore_case, limit=limit)
        lines = list(by_pattern.render(self._sandbox, found.matches, context))

        def note(taken: int) -> str:
            if found.stopped:
                return f"[stopped {found.stopped}; use a simpler pattern, or narrow it with path or glob]"
            if not found.matches:
                return f"[no line matches in {len(chosen)} text files; try ignore_case, a shorter pattern, or search]"
            if found.cut or taken < len(lines):
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
        with text_lines(self._sandbox, relative, content) as text:
            before = sum(1 for _ in islice(text.lines, offset - 1))
            chosen = list(numbered(islice(text.lines, limit), offset, self._limit, alone=limit == 1))
            total = count_lines(text, before + len(chosen))
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
        try:
            found = entries(self._sandbox, relative)
        except OSError as error:
            raise ToolError(f"{escape_path(path)} cannot be listed: {error.strerror}") from error
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
        return (file for file in files(self._sandbox, start) if spec is None or spec.match_file(file))
