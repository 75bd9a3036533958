"""Functions that corrupt a reply, one for each way of doing it; those that take a value return a play."""

import asyncio
import gzip
import json
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from .lying_proxy import EVENTS, JSON, Line, Play

DRIP = 0.02
"""Pause between two bytes of a slow reply [s]."""
BLOCK = 2**16
PAUSE = 0.005
"""Pause between two blocks of an endless reply, so that memory does not fill up before the client gives up [s]."""
PING = b'event: ping\ndata: {"type": "ping"}\n\n: still here\n\n'


async def closes_afterwards(line: Line) -> None:
    """Send the simulator's reply, and close the connection without announcing it."""
    await line.write((await line.good()).raw)


async def refuses(line: Line) -> None:
    """Close the connection, and accept no further ones."""
    line.liar.refuse()


async def hangs_up(line: Line) -> None:
    """Close the connection regularly, without sending a byte."""


async def resets(line: Line) -> None:
    """Reset the connection before the head."""
    line.reset()


async def resets_in_head(line: Line) -> None:
    """Reset the connection in the middle of the head."""
    await line.write((await line.good()).raw[:40])
    line.reset()


async def resets_in_body(line: Line) -> None:
    """Reset the connection in the middle of the body."""
    await _half(line)
    line.reset()


async def stalls(line: Line) -> None:
    """Send nothing."""
    await line.stall()


async def stalls_in_head(line: Line) -> None:
    """Send a part of the head, then nothing."""
    await line.write((await line.good()).raw[:40])
    await line.stall()


async def stalls_in_body(line: Line) -> None:
    """Send half of the body, then nothing; cut a stream between two events."""
    await _half(line)
    await line.stall()


async def cuts_body(line: Line) -> None:
    """Send less than the declared length; of a stream, omit the last chunk."""
    await _half(line)


async def cuts_event(line: Line) -> None:
    """End a stream regularly, but in the middle of an event."""
    reply = await line.good()
    await line.head(kind=EVENTS, transfer_encoding="chunked")
    await line.chunk(reply.body[: len(reply.body) // 2])
    await line.write(b"0\r\n\r\n")


async def _half(line: Line) -> None:
    reply = await line.good()
    if reply.kind == EVENTS:
        await line.head(kind=EVENTS, transfer_encoding="chunked")
        await line.chunk(b"".join(reply.events[: len(reply.events) // 2]))
    else:
        await line.head(content_length=len(reply.body))
        await line.write(reply.body[: len(reply.body) // 2])


def raw(*parts: bytes) -> Play:
    """Send these bytes, and close the connection."""

    async def play(line: Line) -> None:
        await line.write(*parts)

    return play


def sends(body: bytes, status: int = 200, kind: str | None = JSON, **headers: object) -> Play:
    """Send this response; `kind` None omits the content type."""

    async def play(line: Line) -> None:
        await line.send(body, status, content_type=kind, **headers)
        line.keeps_alive = True

    return play


def fails(status: int, **headers: object) -> Play:
    """Send an error in a format that both APIs use."""
    error = {"type": "error", "error": {"type": "api_error", "message": "Not today."}}
    return sends(json.dumps(error).encode(), status, **headers)


def with_body(change: Callable[[bytes], bytes], **headers: object) -> Play:
    """Send the simulator's body with a change."""

    async def play(line: Line) -> None:
        reply = await line.good()
        await line.send(change(reply.body), kind=reply.kind, **headers)
        line.keeps_alive = True

    return play


def with_words(new: bytes) -> Play:
    """Send the simulator's body with these bytes inserted into the middle of some of its words."""
    return with_body(lambda body: re.sub(rb"ques(?=t)|fo(?=und)|mi(?=ce)", lambda word: word[0] + new, body))


def with_events(change: Callable[[list[bytes]], Sequence[bytes]]) -> Play:
    """Send the simulator's events with a change; without a stream, the unchanged reply."""

    async def play(line: Line) -> None:
        reply = await line.good()
        events = change(reply.events) if reply.kind == EVENTS else reply.events
        await line.send(b"".join(events), kind=reply.kind)
        line.keeps_alive = True

    return play


def halfway(change: bytes) -> Callable[[list[bytes]], list[bytes]]:
    """Return a change that inserts these bytes into the middle of a stream."""
    return lambda events: [*events[: len(events) // 2], change, *events[len(events) // 2 :]]


def stream_of(block: bytes, first: bytes = b"", kind: str = EVENTS) -> Play:
    """Send a block repeatedly until the client disconnects."""

    async def play(line: Line) -> None:
        await line.head(kind=kind)
        await line.write(first)
        many = block * max(1, BLOCK // len(block))
        while True:
            await line.write(many)
            await asyncio.sleep(PAUSE)

    return play


def large(size: int) -> Play:
    """Send a JSON body of this size [bytes], far larger than a regular one."""

    async def play(line: Line) -> None:
        await line.head(content_length=size)
        await line.write(b'{"content": [{"type": "text", "text": "')
        for _ in range(size // BLOCK):
            await line.write(b"x" * BLOCK)

    return play


def bomb(size: int) -> Play:
    """Send a small body that decompresses to this size [bytes]."""

    async def play(line: Line) -> None:
        pack = zlib.compressobj(9, wbits=31)
        packed = [*(pack.compress(b" " * BLOCK) for _ in range(size // BLOCK)), pack.flush()]
        await line.send(b"".join(packed), content_encoding="gzip")

    return play


async def redirects_to_itself(line: Line) -> None:
    """Redirect to another path of this server, which redirects again."""
    await line.send(b"", 307, location="/v1/again")
    line.keeps_alive = True


async def redirects_to_another_port(line: Line) -> None:
    """Redirect to another port of this machine."""
    await line.send(b"", 307, location="http://127.0.0.1:9/v1/messages")


async def informs_for_ever(line: Line) -> None:
    """Send interim responses endlessly."""
    while True:
        await line.write(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 50)
        await asyncio.sleep(DRIP)


async def drips(line: Line) -> None:
    """Send the simulator's body slowly, byte by byte."""
    reply = await line.good()
    if reply.kind == EVENTS:
        await line.head(kind=EVENTS)
    else:
        await line.head(content_length=len(reply.body))
    await _drip(line, reply.body)


async def drips_pings(line: Line) -> None:
    """Send the start of a stream, then endless pings, slowly."""
    reply = await line.good()
    await line.head(kind=EVENTS)
    await line.write(*reply.events[:2])
    while True:
        await _drip(line, PING)


async def drips_head(line: Line) -> None:
    """Send endless headers, slowly, one at a time."""
    await line.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await line.write(b"x: y\r\n")
        await asyncio.sleep(DRIP)


async def _drip(line: Line, body: bytes) -> None:
    for at in range(len(body)):
        await line.write(body[at : at + 1])
        await asyncio.sleep(DRIP)


def wrongly_packed(body: bytes) -> bytes:
    """Return the body compressed with gzip, with a damaged byte in the middle."""
    packed = bytearray(gzip.compress(body))
    packed[len(packed) // 2] ^= 0xFF
    return bytes(packed)


def nested(depth: int) -> Any:
    """Return JSON with lists nested to this depth."""
    return b'{"content": ' + b"[" * depth + b"]" * depth + b"}"
