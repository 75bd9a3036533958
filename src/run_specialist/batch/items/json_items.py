"""Read items as JSON: one value per line, or one array."""

import json
import re
from collections.abc import Iterator
from typing import NoReturn

from run_specialist.batch.item import InputRecord
from run_specialist.batch.items.decoded_lines import Lines, OnBad
from run_specialist.errors import UsageError

_SPACE = re.compile(r"[ \t\r\n]*")


def json_line_items(lines: Lines, name: str, bad: OnBad) -> Iterator[InputRecord]:
    """Yield the values of JSON Lines, skipping empty lines; questions are made only from objects and strings.

    name: of the file, for errors.
    bad: called for a line that is invalid.
    """
    for number, line in lines:
        if text := line.strip():
            where = f"{name}:{number}"
            try:
                value = _DECODER.decode(text)
            except (ValueError, RecursionError) as error:
                bad(UsageError(f"{where} is not valid JSON: {_reason(error)}; write one object or string per line"))
            else:
                yield InputRecord(value, where)


def json_array_items(lines: Lines, name: str) -> Iterator[InputRecord]:
    """Yield the values of a JSON array, which is read as a whole; questions are made only from objects and strings.

    name: of the file, for errors.
    """
    text = "".join(line for _, line in lines)
    position, line = _skip(text, 0, 1)
    if text[position : position + 1] != "[":
        raise UsageError(f"{name} is not a JSON array; give the format `jsonl` if it has one value per line")
    position, line = _skip(text, position + 1, line)
    is_last = text[position : position + 1] == "]"
    while not is_last:
        where = f"{name}:{line}"
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where} is not valid JSON: {_reason(error, with_column=False)}") from None
        yield InputRecord(value, where)
        position, line = _skip(text, end, line + text.count("\n", position, end))
        is_last = text[position : position + 1] == "]"
        if not is_last and text[position : position + 1] != ",":
            raise UsageError(f"{name}:{line} is not valid JSON: `,` or `]` is missing after an item")
        if not is_last:
            position, line = _skip(text, position + 1, line)
    if text[position + 1 :].strip():
        raise UsageError(f"{name}:{line} is not valid JSON: there is more text after the array")


def is_json_object(line: str) -> bool:
    """Return whether a line is a JSON object."""
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(_DECODER.decode(line.strip()), dict)
    except (ValueError, RecursionError):
        return False


def _skip(text: str, position: int, line: int) -> tuple[int, int]:
    """Skip white space; return the new position and its line."""
    found = _SPACE.match(text, position)
    end = found.end() if found else position
    return end, line + text.count("\n", position, end)


def _reason(error: Exception, *, with_column: bool = True) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.colno}" if with_column else error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
