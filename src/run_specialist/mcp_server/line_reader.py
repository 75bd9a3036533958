"""Bytes from a stream as lines of bounded length; of a longer one, the id of its request."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

TAIL = 1_024
"""The end of a line that is too long is kept to look for its id [bytes]."""
_SCALAR = rb'(?:"(?:[^"\\]|\\.)*"|-?[0-9]+)'
_MEMBER = rb'"(jsonrpc|id|method)"\s*:\s*(' + _SCALAR + rb")"
_FIRST = re.compile(rb"\s*\{\s*" + _MEMBER + rb"\s*,")
_NEXT = re.compile(rb"\s*" + _MEMBER + rb"\s*,")
_LAST = re.compile(rb",\s*" + _MEMBER + rb"\s*\}\s*\Z")
_BEFORE = re.compile(rb",\s*" + _MEMBER + rb"\s*\Z")


@dataclass(frozen=True)
class TooLong:
    """A line that was passed over."""

    request_id: str | int | None
    """The id of the request that it was; None where that cannot be seen from its beginning and end."""


class LineReader:
    """Splits a stream of bytes into lines, and keeps no more than one of them."""

    def __init__(self, longest: int) -> None:
        """Take the bound [bytes]; a line that is longer by less than a chunk may still pass."""
        self._longest = longest
        self._line = bytearray()
        self._passed_over: bytearray | None = None
        """The last bytes of a line that is too long; its first ones stay in `_line`."""

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """Return the lines that end in a chunk, without their ends."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield self._end(end)
        self._take(rest)

    def _take(self, part: bytes) -> None:
        if self._passed_over is not None:
            self._passed_over += part[-TAIL:]
            del self._passed_over[:-TAIL]
            return
        self._line += part
        if len(self._line) > self._longest:
            self._passed_over = self._line[-TAIL:]
            del self._line[TAIL:]

    def _end(self, part: bytes) -> bytes | TooLong:
        self._take(part)
        line, passed_over = bytes(self._line), self._passed_over
        self._line, self._passed_over = bytearray(), None
        return line if passed_over is None else TooLong(_request_id(line, bytes(passed_over)))


def _request_id(head: bytes, tail: bytes) -> str | int | None:
    """Return the id of a request, which clients write at its very beginning or end.

    Only there, beside the outermost braces, a member is known to be the message's own and not part of its arguments.
    """
    members: dict[bytes, bytes] = {}
    place = 0
    while found := (_NEXT if place else _FIRST).match(head, place):
        members.setdefault(found[1], found[2])
        place = found.end()
    last = _LAST
    while found := last.search(tail):
        members.setdefault(found[1], found[2])
        tail, last = tail[: found.start()], _BEFORE
    if b"method" not in members or b"id" not in members:
        return None
    try:
        read = json.loads(members[b"id"])
    except ValueError:
        return None
    return read if isinstance(read, str | int) else None
