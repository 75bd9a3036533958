"""Find the front matter between its fences, tolerating malformed ones."""

import re
from dataclasses import dataclass

from run_specialist.specialist.keys import is_known
from run_specialist.specialist.problems import START, Position, Problems
from run_specialist.specialist.reading.decoding import place_of

# Maximum number of lines searched for keys; real front matter has a few dozen.
MOST_LINES = 10_000

# Blank lines, a comment line or an HTML comment.
_LEAD = re.compile(r"[ \t\n]*\n|[ \t]*#[^\n]*\n|[ \t]*<!--.*?-->[ \t]*(?:\n|\Z)", re.DOTALL)
_OPENING = re.compile(r"([ \t]*)-{3,}([ \t]*)(?:\n|\Z)")
_CLOSING = re.compile(r"^(?:-{3,}|\.\.\.)[ \t]*$", re.MULTILINE)
KEY = re.compile(r"""(["']?)([A-Za-z_][\w.-]*)\1[ \t]*:""")


@dataclass(frozen=True, slots=True)
class FencedParts:
    """Positions of front matter and body in a file."""

    text: str
    """The complete file, dedented if it was indented."""
    start: int
    """First character of the front matter."""
    end: int
    body: int
    """First character of the body."""
    indent: int = 0
    """Number of columns removed from every line."""

    @property
    def front(self) -> str:
        """Front matter without its fences."""
        return self.text[self.start : self.end]

    @property
    def line(self) -> int:
        """First line of the front matter, counted in the file."""
        return self.text.count("\n", 0, self.start) + 1


def cut(text: str, problems: Problems) -> FencedParts | None:
    """Split a file into its parts, with warnings for malformed fences; None if it has no front matter."""
    at, hashes = _skip_lead(text)
    opening = _OPENING.match(text, at)
    if opening is None:
        return None
    indent = len(opening[1])
    if indent:
        dedented = _dedent(text, opening[1])
        if dedented is None:
            return None
        problems.warn(START, f"every line is indented by {indent}; the indentation is ignored")
        text = dedented
        at, hashes = _skip_lead(text)
        opening = _OPENING.match(text, at)
        if opening is None:
            return None
    if hashes and not _key_follows(text, opening.end()):
        return None  # a heading and a rule below it, not a comment and a fence
    fence = place_of(text, opening.start())
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        return _unclosed(text, opening.end(), indent, fence, problems)
    if at:
        problems.warn(fence, "the front matter does not start on line 1")
    _check_fence(text[opening.start() : opening.end()].removesuffix("\n"), fence, "opening", problems)
    _check_fence(closing[0], place_of(text, closing.start()), "closing", problems)
    return FencedParts(text, opening.end(), closing.start(), min(closing.end() + 1, len(text)), indent)


def is_key_line(line: str) -> str | None:
    """Return the key at the start of a line, or None; `key:value` without a blank counts for known keys only."""
    match = KEY.match(line)
    if match is None:
        return None
    spaced = line[match.end() : match.end() + 1].strip() == ""
    return match[2] if spaced or is_known(match[2]) else None


def _skip_lead(text: str, at: int = 0) -> tuple[int, bool]:
    """Return the end of the blank and comment lines, and whether any of them starts with `#`."""
    hashes = False
    while match := _LEAD.match(text, at):
        at = match.end()
        hashes = hashes or match[0].lstrip().startswith("#")
    return at, hashes


def _dedent(text: str, indent: str) -> str | None:
    """Return the text without `indent` at the start of each line; None if a line lacks it."""
    lines = text.split("\n")
    if any(line.strip() and not line.startswith(indent) for line in lines):
        return None
    return "\n".join(line.removeprefix(indent) for line in lines)


def _key_follows(text: str, at: int) -> bool:
    start, hashes = _skip_lead(text, at)
    key = is_key_line(text[start:].lstrip().partition("\n")[0])
    return key is not None and (not hashes or is_known(key))


def _check_fence(fence: str, place: Position, which: str, problems: Problems) -> None:
    if fence != "---":
        problems.warn(place, f"the {which} fence is not exactly three dashes")


def _unclosed(text: str, start: int, indent: int, fence: Position, problems: Problems) -> FencedParts | None:
    """Return the leading key lines and their indented continuation lines as front matter."""
    end = at = start
    lines = 0
    blank_before = False
    while at < len(text) and lines < MOST_LINES:
        lines += 1
        stop = text.find("\n", at) + 1 or len(text)
        line = text[at:stop]
        if not line.strip() or (end == start and line.startswith("#")):
            blank_before = True
        elif _is_front_matter(line, end > start, blank_before):
            end, blank_before = stop, False
        else:
            break
        at = stop
    if end == start:
        return None
    problems.warn(fence, "the front matter has no closing fence; using its leading key lines")
    return FencedParts(text, start, end, end, indent)


def _is_front_matter(line: str, begun: bool, blank_before: bool) -> bool:  # noqa: FBT001 - private
    """Return whether a line belongs to front matter that has no closing fence."""
    key = is_key_line(line)
    if key:
        return not blank_before or is_known(key)
    return begun and (line[0] in " \t" or (not blank_before and line.startswith(("- ", "#"))))
