"""Formatting of search hits and folder entries for the model."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox.listing import Entry, entries
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path
from run_specialist.tools.sandbox.text import CLIP, clip, count_lines, text_lines
from run_specialist.tools.search.passage_index import Hit
from run_specialist.tools.search.passages import Line
from run_specialist.tools.search.terms import content_terms, stems

READ_CLIP = 2_000
"""Maximum length of a line that is read among others: many notes have one paragraph per line [characters]."""
_KILO = 1024
_WINDOW = 8
_MAX_NOTE = 150


def hit_lines(hits: Sequence[Hit], query: str) -> Iterator[str]:
    """Yield the heading and the best lines of each passage, with an empty line between passages."""
    wanted = stems(" ".join(content_terms(query)))
    for position, hit in enumerate(hits):
        if position:
            yield ""
        for number, text in (*hit.passage.headings[-1:], *_best_lines(hit.passage.lines, wanted)):
            yield f"{escape_path(hit.path)}:{number}: {text}"


def _best_lines(lines: Sequence[Line], wanted: AbstractSet[str]) -> Sequence[Line]:
    """Return the first window of consecutive lines that contains the most wanted stems."""
    counts = [len(wanted & stems(text)) for _, text in lines]
    starts = range(max(1, len(lines) - _WINDOW + 1))
    start = max(starts, key=lambda first: sum(counts[first : first + _WINDOW]))
    return lines[start : start + _WINDOW]


def comma_list(words: Iterable[str]) -> str:
    """Join words with commas, as many as fit in a note."""
    text = ""
    for word in words:
        if len(text) + len(word) > _MAX_NOTE:
            return f"{text}, …" if text else ""
        text = f"{text}, {word}" if text else word
    return text


def numbered(lines: Iterable[tuple[str, int]], first: int, result_limit: int, *, alone: bool) -> Iterator[str]:
    """Yield lines with their numbers; a single requested line is not clipped.

    result_limit: maximum length of the result, of which one line takes at most a quarter [characters].
    """
    most = max(CLIP, min(READ_CLIP, result_limit // 4))
    for number, (line, length) in enumerate(lines, first):
        yield f"{number:>6}\t{line if alone else clip(line, length, most=most)}"


def describe(sandbox: Sandbox, entry: Entry) -> str:
    """Return one line of a folder listing."""
    name = escape_path(entry.name)
    if entry.kind == "folder":
        return f"{name}/  {_entry_count(sandbox, entry.relative)}"
    if entry.kind == "link":
        return f"{name} -> {_link_target(sandbox, entry.relative)}"
    if entry.kind == "special":
        return f"{name}  (no regular file; cannot be read)"
    try:
        size = sandbox.size(entry.relative)
        with text_lines(sandbox, entry.relative) as text:
            count = _pluralize(count_lines(text, 0), "line", "lines")
    except OSError:
        return f"{name}  (is gone by now)"
    except ToolError as error:
        count = "binary" if "binary" in str(error) else "unreadable"
    return f"{name}  {_format_size(size)}  {count}"


def _entry_count(sandbox: Sandbox, relative: str) -> str:
    try:
        return _pluralize(len(entries(sandbox, relative)), "entry", "entries")
    except OSError:
        return "unreadable"


def _link_target(sandbox: Sandbox, relative: str) -> str:
    try:
        return escape_path(sandbox.locate(relative)) or "."
    except ToolError:
        return "(leads to what you may not read)"


def _pluralize(number: int | str, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _format_size(size: int) -> str:
    if size < _KILO:
        return f"{size} B"
    return f"{size / _KILO:.1f} KB" if size < _KILO**2 else f"{size / _KILO**2:.1f} MB"
