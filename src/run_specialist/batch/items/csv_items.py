"""Items as CSV: the first row names the fields, every other row is an item."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from run_specialist.batch.item import InputRecord
from run_specialist.batch.items.decoded_lines import LONGEST_LINE, Lines, OnBad
from run_specialist.errors import UsageError
from run_specialist.specialist.problems import shown

_DELIMITERS = (",", ";", "\t", "|")
"""Tried in this order; the first delimiter that gives the most columns is used."""
_SAMPLE_LINES = 50
_SAMPLE_CHARACTERS = 65_536
# The line with which spreadsheets name the delimiter.
_NAMED = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


def csv_items(lines: Lines, name: str, bad: OnBad, delimiter: str | None = None) -> Iterator[InputRecord]:
    """Yield the rows of a CSV file as fields by name; rows without any value are skipped.

    A quoted value may contain line breaks. White space around names is removed, and a column without a name is called
    `column N`.
    name: of the file, for errors.
    bad: called for a row with another number of values than the header.
    delimiter: None to find it: by a line `sep=;`, else the one that gives the first rows equally many columns.
    """
    # The limit is one for the process, and too small for the content of a file; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    first = [*islice(lines, 1)]
    if first and (named := _NAMED.fullmatch(first[0][1])):
        delimiter, first = delimiter or named[1], []
    if delimiter is None:
        first += _sample(lines, sum(len(text) for _, text in first))
        delimiter = _sniff([text for _, text in first])
    rows = _rows(chain(first, lines), name, delimiter)
    where, cells = next(rows, (name, []))
    header = _header(cells, where) if cells else []
    for where, cells in rows:
        if len(cells) == len(header):
            yield InputRecord(dict(zip(header, cells, strict=True)), where)
        else:
            bad(UsageError(f"{where} {_ragged(len(cells), header, delimiter)}"))


def _sample(lines: Lines, size: int) -> Iterator[tuple[int, str]]:
    for one in islice(lines, _SAMPLE_LINES):
        yield one
        size += len(one[1])
        if size > _SAMPLE_CHARACTERS:
            return


def _sniff(sample: Sequence[str]) -> str:
    """Return the delimiter that gives each row the same number of columns, else the one that splits the header most."""
    best, most = _DELIMITERS[0], (False, 1)
    for delimiter in _DELIMITERS:
        widths = _widths(sample, delimiter)
        alike = len(set(widths)) == 1
        if widths and widths[0] > 1 and (alike, widths[0]) > most:
            best, most = delimiter, (alike, widths[0])
    return best


def _widths(sample: Sequence[str], delimiter: str) -> list[int]:
    """Return the number of columns of each row; empty if the quotes do not match with the delimiter."""
    widths: list[int] = []
    try:
        # `extend` keeps what it has when the reader raises an error.
        widths.extend(len(row) for row in csv.reader(sample, delimiter=delimiter, strict=True) if any(row))
    except csv.Error as error:
        # A quoted value may continue after the sample; its row is not counted.
        return widths if "end of data" in str(error) else []
    return widths


def _rows(lines: Lines, name: str, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the values of each row that has any; raises UsageError for wrong quotes."""
    last = 0

    def texts() -> Iterator[str]:
        nonlocal last
        for last, text in lines:  # noqa: B007 - read outside
            yield text

    rows = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        before = last
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise UsageError(_syntax(f"{name}:{before + 1}", error)) from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield f"{name}:{before + 1}", cells


def _syntax(where: str, error: csv.Error) -> str:
    text = str(error)
    if "end of data" in text or "field limit" in text:
        return f'{where}: a quoted value that begins in this row does not end; close it with `"`'
    if "new-line" in text:
        return f"{where}: a carriage return has no line feed after it; save the file with LF or CRLF line ends"
    return f'{where}: {text}; write a quote inside a quoted value as `""`'


def _header(cells: list[str], where: str) -> list[str]:
    names = [cell.strip() or f"column {number}" for number, cell in enumerate(cells, 1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(f"{where}: the header has the column {shown(twice[0])!r} more than once; rename one of them")
    return names


def _ragged(count: int, header: list[str], delimiter: str) -> str:
    values = "1 value" if count == 1 else f"{count} values"
    text = f"has {values}, but the header has {len(header)} ({shown(', '.join(header))})"
    sign = "a tab" if delimiter == "\t" else f"`{delimiter}`"
    return f"{text}; quote a value that contains {sign}" if count > len(header) else f"{text}; add the missing ones"
