"""Decode the lines of a file of items; each problem is an error with `file:line`."""

import codecs
from collections.abc import Callable, Iterator
from typing import BinaryIO, NoReturn

from run_specialist.errors import UsageError

LONGEST_LINE = 10 * 1024**2
"""Maximum length of a line; no model accepts a longer item [bytes]."""
Lines = Iterator[tuple[int, str]]
"""Line numbers, from 1, with the lines and their line ends."""
OnBad = Callable[[UsageError], None]
"""Called with the error of an item that can be skipped; raises the error, or records it."""
_OTHER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def stop(error: UsageError) -> NoReturn:
    """Raise the error of a bad item."""
    raise error


def decoded_lines(file: BinaryIO, name: str) -> Lines:
    """Yield the lines of a UTF-8 file, without a byte order mark.

    name: of the file, for errors.
    Raises UsageError for a line that is too long, or is not text.
    """
    number = 0
    while data := file.readline(LONGEST_LINE + 1):
        number += 1
        where = f"{name}:{number}"
        if len(data) > LONGEST_LINE:
            raise UsageError(f"{where}: the line is longer than {LONGEST_LINE // 1024**2} MiB; shorten or split it")
        if number == 1:
            for mark, encoding in _OTHER_MARKS:
                if data.startswith(mark):
                    raise UsageError(f"{where}: the file is {encoding}; save it as UTF-8")
            data = data.removeprefix(codecs.BOM_UTF8)
        if b"\0" in data:
            raise UsageError(f"{where}: contains a NUL, so it is not text; save the items as UTF-8 text")
        try:
            yield number, data.decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{where}: byte {error.start + 1} of the line is not UTF-8 (Latin-1 perhaps?); save the file as UTF-8"
            ) from None
