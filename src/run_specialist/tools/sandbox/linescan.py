"""Read text files line by line, and find the lines that a pattern matches.

Imports the standard library only: it is also run as a script, because `re` knows no time limit and holds the
interpreter while it works. To stop a pattern that backtracks for ever, the process has to be killed: `limited.py`.
"""

import codecs
import io
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

HEAD = 8192
"""How much of a file decides whether it is text [bytes]."""
LONGEST = 65_536
"""How much of one line is ever held [characters]."""
BROKE_OFF = 3
"""Exit code of a search that an error ended, e.g. for want of memory; 0 to 2 mean what they mean for ripgrep."""


def encoding_of(head: bytes | bytearray) -> str | None:
    """Name the encoding of a file by its first bytes; None when it is not text."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return None if b"\0" in head else "utf-8"


def lines_of(file: BinaryIO, encoding: str, until: float = math.inf) -> Iterator[tuple[str, int]]:
    r"""Yield each line, without its end and cut to LONGEST, and its whole length [characters].

    Only `\n` and `\r\n` end a line, as in ripgrep; other breaks that Unicode knows do not.
    until: when to give up, on the clock of `time.monotonic` [s].
    Raises TimeoutError then: a file may be without an end, or grow faster than it is read.
    """
    with io.TextIOWrapper(file, encoding, errors="replace", newline="\n") as text:
        while line := text.readline(LONGEST):
            length, piece = len(line), line
            while not piece.endswith("\n") and (piece := text.readline(LONGEST)):
                length += len(piece)
                _check(until)
            _check(until)
            kept = line.rstrip("\r\n")
            yield kept, max(len(kept), length - 1 if length > LONGEST else 0)


def lines_in(text: str) -> list[str]:
    """Return the lines of a text as `lines_of` yields those of a file."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[:LONGEST].rstrip("\r") for line in lines]


def _check(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError("that would take too long; it is too large to be read so far")


def main() -> None:
    r"""Print `path\0line:column:` for each matching line; arguments: pattern, flags, lines per file, paths."""
    pattern = re.compile(sys.argv[1], int(sys.argv[2]))
    for path in sys.argv[4:]:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
                encoding = encoding_of(file.read(HEAD) or b"") or "latin-1"
                file.seek(0)
                found = (
                    f"{number}:{len(line[: match.start()].encode('utf-8', 'replace')) + 1}:\n"
                    for number, (line, _) in enumerate(lines_of(file, encoding), 1)
                    if (match := pattern.search(line))
                )
                for place in islice(found, int(sys.argv[3])):
                    sys.stdout.buffer.write(os.fsencode(path) + b"\0" + place.encode())
                sys.stdout.buffer.flush()
        except OSError:
            continue


if __name__ == "__main__":
    try:
        main()
    except Exception:  # noqa: BLE001 - Python would exit with 1, which means that nothing was found
        sys.exit(BROKE_OFF)
