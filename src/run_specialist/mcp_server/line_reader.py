"""Split a byte stream into lines of bounded length; extract the request id from longer lines."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

TAIL = 1_024
"""Bytes kept from the start and the end of a line that is too long, to find its request id [bytes]."""
_SCALAR = rb'(?:"(?:[^"\\]|\\.)*"|-?[0-9]+)'
_MEMBER = rb'"(jsonrpc|id|method)"\s*:\s*(' + _SCALAR + rb")"
_FIRST = re.compile(rb"\s*\{\s*" + _MEMBER + rb"\s*,")
_NEXT = re.compile(rb"\s*" + _MEMBER + rb"\s*,")
_LAST = re.compile(rb",\s*" + _MEMBER + rb"\s*\}\s*\Z")
_BEFORE = re.compile(rb",\s*" + _MEMBER + rb"\s*\Z")


@dataclass(frozen=True)
class TooLong:
    """A line that was skipped because it is too long."""

    request_id: str | int | None
    """The id of the JSON-RPC request in the line; None if its start and end do not contain one."""


class LineReader:
    """Splits a byte stream into lines, and buffers at most one line."""

    def __init__(self, longest: int) -> None:
        """Set the maximum length [bytes]; a line that exceeds it by less than one chunk may still be returned."""
        self._longest = longest
        self._line = bytearray()
        self._tail: bytearray | None = None
        """The last bytes of a line that is too long; its first bytes are in `_line`."""

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """Yield the lines that end in a chunk, without line breaks."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield self._end_line(end)
        self._append(rest)

    def _append(self, part: bytes) -> None:
        if self._tail is not None:
            self._tail += part[-TAIL:]
            del self._tail[:-TAIL]
            return
        self._line += part
        if len(self._line) > self._longest:
            self._tail = self._line[-TAIL:]
            del self._line[TAIL:]

    def _end_line(self, part: bytes) -> bytes | TooLong:
        self._append(part)
        line, tail = bytes(self._line), self._tail
        self._line, self._tail = bytearray(), None
        return line if tail is None else TooLong(_request_id(line, bytes(tail)))


def _request_id(head: bytes, tail: bytes) -> str | int | None:
    """Return the id of a request, which clients write at the start or end of the message.

    Only next to the outermost braces is a member certain to belong to the message and not to its arguments.
    """
    members: dict[bytes, bytes] = {}
    position = 0
    while found := (_NEXT if position else _FIRST).match(head, position):
        members.setdefault(found[1], found[2])
        position = found.end()
    last = _LAST
    while found := last.search(tail):
        members.setdefault(found[1], found[2])
        tail, last = tail[: found.start()], _BEFORE
    if b"method" not in members or b"id" not in members:
        return None
    try:
        request_id = json.loads(members[b"id"])
    except ValueError:
        return None
    return request_id if isinstance(request_id, str | int) else None
