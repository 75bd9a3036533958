"""Text file reader by line, and a script that prints the lines that match a pattern.

It imports the standard library only. The search runs as a separate process, because `re` has no timeout and blocks the
interpreter: a pattern that backtracks endlessly can only be stopped by killing the process, as `limited.py` does.
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

DETECTION_SIZE = 8192
"""Size of the prefix used to detect whether a file is text [bytes]."""
LONGEST_LINE = 65_536
"""Maximum length of a line; the rest is cut [characters]."""
SEARCH_FAILED = 3
"""Exit code of a search that failed, e.g. out of memory; 0 to 2 have the same meaning as for ripgrep."""


def encoding_of(head: bytes | bytearray) -> str | None:
    """Detect the encoding of a file from its first bytes; return None if it is not text."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return None if b"\0" in head else "utf-8"


def lines_of(file: BinaryIO, encoding: str, until: float = math.inf) -> Iterator[tuple[str, int]]:
    r"""Yield each line, without its line ending and cut to LONGEST_LINE, and its original length [characters].

    Only `\n` and `\r\n` end a line, as in ripgrep; other Unicode line breaks do not.
    until: deadline on the clock of `time.monotonic` [s].
    Raises TimeoutError after the deadline: a file may be endless, or grow faster than it is read.
    """
    with io.TextIOWrapper(file, encoding, errors="replace", newline="\n") as text:
        while line := text.readline(LONGEST_LINE):
            length, piece = len(line), line
            while not piece.endswith("\n") and (piece := text.readline(LONGEST_LINE)):
                length += len(piece)
                _check_deadline(until)
            _check_deadline(until)
            content = line.rstrip("\r\n")
            yield content, max(len(content), length - 1 if length > LONGEST_LINE else 0)


def lines_in(text: str) -> list[str]:
    """Split a text into lines in the same way as `lines_of`."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[:LONGEST_LINE].rstrip("\r") for line in lines]


def _check_deadline(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError("that would take too long; it is too large to be read so far")


def main() -> None:
    r"""Print `path\0line:column:` for each matching line; arguments: pattern, flags, lines per file, paths."""
    pattern = re.compile(sys.argv[1], int(sys.argv[2]))
    for path in sys.argv[4:]:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - importing pathlib would double the start-up time
                encoding = encoding_of(file.read(DETECTION_SIZE) or b"") or "latin-1"
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
    except Exception:  # noqa: BLE001 - exit code 1 would mean that nothing was found
        sys.exit(SEARCH_FAILED)
