"""Files that collect what was measured, one JSON object a line, so that a command can be stopped and started again."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")


class LinesUnreadable(Exception):
    """A file cannot be read; the message is one line with the place and the reason."""


def read(file: Path | None, first: str, of: Callable[[dict[str, Any]], _T]) -> list[_T]:
    """Return what the complete lines of a file hold; nothing if there is no file.

    first: the first key of each object.
    of: makes a value of an object.
    Raises LinesUnreadable, also if an incomplete last line is not the beginning of such an object: `mend` must not
    remove the content of another file.
    """
    if file is None or not file.exists():
        return []
    # Only these ends: a text may hold other characters that `splitlines` takes for one.
    *complete, torn = file.read_text(encoding="utf-8").split("\n")
    start = f'{{"{first}": '
    if not torn.startswith(start[: len(torn)]):
        raise LinesUnreadable(f"{file}: not a file of this benchmark")
    found = []
    for number, line in enumerate(complete, 1):
        try:
            found.append(of(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            raise LinesUnreadable(f"{file}:{number}: not a line of this benchmark ({error!r})") from error
    return found


def mend(file: Path | None) -> None:
    """Remove an incomplete last line, which is left by a process that was killed, so that lines can be appended."""
    if file is not None and file.exists():
        complete, newline, torn = file.read_text(encoding="utf-8").rpartition("\n")
        if torn:
            file.write_text(complete + newline, encoding="utf-8")


def append(file: Path | None, values: Mapping[str, Any]) -> None:
    """Add an object to a file, if there is one."""
    if file is not None:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(values, ensure_ascii=False) + "\n")
