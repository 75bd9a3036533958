"""Print the result of a replay: one line, or the first difference as a colored diff."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import typer

from run_specialist.cli.console import has_colours, is_terminal, print_line, print_styled, printable, say
from run_specialist.cli.wrapping import wrapped
from run_specialist.replay.replay import ReplayResult

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_HEAD = 2
"""Number of lines at the beginning of a diff that name its two sides."""


def print_replay(done: ReplayResult, saved: Path | None) -> None:
    """Print the result.

    saved: the file that a replay without a difference was written to.
    """
    if done.difference is None:
        _print_text(_same(done) + (f"; saved to {saved}" if saved else ""))
        return
    if saved:
        say(f"nothing was saved to {saved}, because the run does not replay the same")
    first, diff, hints = done.parts
    _print_text(first)
    for line in _styled([printable(line) for line in diff]) if has_colours() else diff:
        (print_styled if has_colours() else print_line)(line)
    for hint in hints:
        _print_text(hint)


def _print_text(text: str) -> None:
    """Print a text, wrapped at words on a terminal."""
    lines = wrapped(printable(text), shutil.get_terminal_size().columns) if is_terminal() else [text]
    print_line("\n".join(lines))


def _styled(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a diff in color; in a replaced line, the differing part is bold."""
    pairs = _pairs(lines)
    for place, line in enumerate(lines):
        begin, end = _changed(line, lines[pairs[place]]) if place in pairs else (0, 0)
        colour = _COLOURS.get(line[:1])
        parts = ((line[:begin], False), (line[begin:end], True), (line[end:], False))
        yield "".join(typer.style(part, fg=colour, bold=bold or None) for part, bold in parts if part)


def _pairs(lines: Sequence[str]) -> Mapping[int, int]:
    """Return the indexes of single lines that replace each other, each with that of the other one."""
    marks = ["", "", *(line[:1] for line in lines[_HEAD:]), "", ""]
    found: dict[int, int] = {}
    for place in range(_HEAD, len(lines)):
        before, *pair, after = marks[place - 1 : place + 3]
        if pair == ["-", "+"] and before != "-" and after != "+":
            found |= {place: place + 1, place + 1: place}
    return found


def _changed(line: str, other: str) -> tuple[int, int]:
    """Return start and end of the part in which a line differs from another one."""
    begin = 1 + _common(line[1:], other[1:])
    return begin, len(line) - _common(line[begin:][::-1], other[begin:][::-1])


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def _same(done: ReplayResult) -> str:
    """Return the line for a replay without a difference."""
    cassette = done.cassette
    sizes = f"{_counted(len(cassette.requests), 'request')}, {_counted(len(cassette.calls), 'tool call')}"
    line = f"{cassette.source} replays the same: {sizes}, {cassette.outcome['status']}"
    if done.not_compared:
        line += f"; definitions not compared: {', '.join(done.not_compared)}"
    return line


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
