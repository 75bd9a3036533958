"""The line reader limits line length and extracts the request id from a line that is too long."""

import json
import random

import pytest

from run_specialist.mcp_server.server import TAIL, LineReader, TooLong

LONGEST = 4 * TAIL
LONG = "x" * 10 * LONGEST


def read(data: bytes, size: int = 100) -> list:
    """Return the lines of some bytes that arrive in chunks of `size`."""
    reader = LineReader(LONGEST)
    return [line for start in range(0, len(data), size) for line in reader.feed(data[start : start + size])]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_are_reassembled_from_any_chunk_size(size):
    """Lines, including empty ones, are reassembled from any chunk size; an unterminated line is held back."""
    assert read(b"one\n\ntwo\xff\r\nthree", size) == [b"one", b"", b"two\xff\r"]


@pytest.mark.parametrize("size", [1, 100, 5000, 100_000])
def test_an_overlong_line_is_reported_once(size):
    """At any chunk size an overlong line is reported once; a line of exactly the maximum length passes."""
    full = b"y" * LONGEST
    assert read(LONG.encode() + b"\n" + full + b"\nnext\n", size) == [TooLong(None), full, b"next"]


def test_the_buffer_of_an_overlong_line_is_limited():
    """The buffer stays bounded however long a line is."""
    reader = LineReader(LONGEST)
    for _ in range(1000):
        assert [*reader.feed(b"x" * 1000)] == []
    assert len(reader._line) + len(reader._tail) <= 2 * TAIL


ARGUMENTS = {"name": "ask", "arguments": {"query": LONG, "id": 99, "method": "no"}}


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        ({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": ARGUMENTS}, 7),
        ({"method": "tools/call", "params": ARGUMENTS, "jsonrpc": "2.0", "id": 7}, 7),
        ({"method": "tools/call", "params": ARGUMENTS, "id": 'a\\"}{,b'}, 'a\\"}{,b'),
        ({"id": -1, "params": ARGUMENTS, "method": "tools/call"}, -1),
        ({"jsonrpc": "2.0", "method": "notifications/x", "params": ARGUMENTS}, None),
        ({"jsonrpc": "2.0", "id": 7, "result": ARGUMENTS}, None),
        ({"params": ARGUMENTS, "jsonrpc": "2.0"}, None),
        ({"jsonrpc": "2.0", "id": None, "method": "x", "params": ARGUMENTS}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "x", "params": ARGUMENTS}, None),
        ({"jsonrpc": "2.0", "method": "x", "params": {"a": LONG, "b": {"id": 5}}}, None),
        ({"jsonrpc": "2.0", "method": "x", "params": {"a": LONG, "id": 5}}, None),
        ({"jsonrpc": "2.0", "method": "x", "params": {"a": LONG + ',"id": 5}'}}, None),
        ({"jsonrpc": "2.0", "method": "x", "params": [LONG], "more": '","id":5'}, None),
        ({"method": "x", "params": {"a": LONG, "id": 5}, "jsonrpc": "2.0"}, None),
        ([{"jsonrpc": "2.0", "id": 7, "method": "x", "params": ARGUMENTS}], None),
    ],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,  ", " :\t")])
def test_the_id_of_an_overlong_request_is_used_only_if_certain(message, request_id, separators):
    """Only a request's own id at its very start or end is used, never one in arguments, a notification or a result."""
    assert read(json.dumps(message, separators=separators).encode() + b"\n", 5000) == [TooLong(request_id)]


def test_an_id_with_too_many_digits_is_none():
    """An id with more digits than Python converts is reported as None."""
    line = b'{"method": "x", "id": ' + b"9" * 5000 + b', "params": "' + LONG.encode() + b'"}\n'
    assert read(line) == [TooLong(None)]


def test_random_bytes_do_not_break_the_reader():
    """Random bytes neither slow down nor break the reader."""
    source = random.Random(1)  # noqa: S311 - not used for secrets
    alphabet = b'{}[]",:\\ \n\tid0-methodjsonrpc'
    data = bytes(source.choice(alphabet) for _ in range(200_000)).replace(b"\n", b"") + b"\n"
    assert read(data, 1000) == [TooLong(None)]
