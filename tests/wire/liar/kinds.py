"""A table of all kinds of faults."""

import json
from dataclasses import dataclass
from enum import Enum
from functools import partial

from . import plays
from .lying_proxy import EVENTS, JSON, Play

MIB = 2**20
TRIES = 3
"""Requests during a fault that is retried: the first one and two retries."""
REDIRECTS = 21
"""Requests per try in a redirect loop: the first one, and the redirects that the HTTP library follows."""
HTML = b"<!doctype html><title>Sign in</title><p>Welcome to the hotel."
DAMAGED = b'\x89PNG\r\n\x1a\n{"content": [{"ty'
ERROR = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
ENDLESS_EVENT = (
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", '
    b'"text": "and on and on "}, "choices": [{"index": 0, "delta": {"content": "and on and on "}}]}\n\n'
)
BEGUN = (
    b'event: content_block_start\ndata: {"type": "content_block_start", "index": 0, "content_block": '
    b'{"type": "text", "text": ""}}\n\n'
)


class End(Enum):
    """The expected result of a request whose fault persists."""

    FAILS = "fails"
    """It fails immediately, without a timeout."""
    STALLS = "stalls"
    """It fails by the client's read timeout."""
    LASTS = "lasts"
    """It would never end; only a time limit ends it."""
    PASSES = "passes"
    """It succeeds despite the fault."""
    EITHER = "either"
    """It succeeds or fails; both are correct."""


@dataclass(frozen=True)
class Kind:
    """One kind of fault."""

    name: str
    play: Play
    end: End = End.FAILS
    tries: tuple[int, int] = (1, 1)
    """Requests that the server receives while the fault lasts: for whole replies, and for streamed ones."""
    exact: bool = True
    """False if fewer requests are possible, because it depends on the HTTP library how far it reads."""
    streams: bool = True
    whole: bool = True
    """Whether the kind applies to streams (`streams`) and to whole replies (`whole`)."""


retried = partial(Kind, tries=(TRIES, TRIES))
unsure = partial(Kind, tries=(TRIES, TRIES), exact=False)
streamed = partial(Kind, whole=False)


def _json(value: object) -> Play:
    return plays.sends(json.dumps(value).encode())


def _swapped(events: list[bytes]) -> list[bytes]:
    return [*events[:1], *reversed(events[1:-1]), *events[-1:]]


def _twice(events: list[bytes]) -> list[bytes]:
    return [one for event in events for one in (event, event)]


def _late_date(seconds: int) -> str:
    from datetime import UTC, datetime, timedelta
    from email.utils import format_datetime

    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


KINDS: tuple[Kind, ...] = (
    # Connection faults.
    Kind("refused", plays.refuses, tries=(1, 1)),
    retried("closed before the head", plays.hangs_up),
    retried("reset before the head", plays.resets),
    retried("reset in the head", plays.resets_in_head),
    retried("reset in the body", plays.resets_in_body),
    Kind("closed between requests", plays.closes_afterwards, End.PASSES),
    # Stalls and slow replies.
    retried("stall before the head", plays.stalls, end=End.STALLS),
    retried("stall in the head", plays.stalls_in_head, end=End.STALLS),
    retried("stall in the body", plays.stalls_in_body, end=End.STALLS),
    Kind("drip of the body", plays.drips, End.LASTS),
    Kind("drip of the head", plays.drips_head, End.LASTS),
    streamed("drip of pings", plays.drips_pings, end=End.LASTS),
    Kind("interim responses for ever", plays.informs_for_ever, End.LASTS),
    # Replies cut off.
    retried("body shorter than told", plays.cuts_body),
    retried("stream ends within an event", plays.cuts_event, whole=False),
    Kind("empty 200", plays.sends(b"")),
    Kind("204", plays.raw(b"HTTP/1.1 204 No Content\r\n\r\n")),
    # Malformed replies.
    Kind("garbage as JSON", plays.sends(DAMAGED)),
    Kind("garbage as events", plays.sends(b"data: \x00{]\n\nevent: message_start\ndata: {\n\n" + DAMAGED, kind=EVENTS)),
    Kind("garbage in mid-stream", plays.with_events(plays.halfway(b"event: x\ndata: {not json\n\n")), whole=False),
    unsure("garbage before the head", plays.raw(b"SSH-2.0-OpenSSH_9.2\r\n" + b"\x00" * 64)),
    Kind("HTML with 200", plays.sends(HTML, kind="text/html")),
    Kind("no content type", plays.sends(HTML, kind=None)),
    Kind("wrong content type", plays.with_body(bytes, content_type="text/plain")),
    Kind("JSON null", _json(None)),
    Kind("JSON list", _json([1, 2])),
    Kind("JSON of another API", _json({"ok": True, "data": {"id": 7}})),
    Kind("content of numbers", _json({"content": [1], "choices": [{"message": [1]}]})),
    Kind("blocks of nothing", _json({"content": [{}], "choices": [{"message": {}}]}), End.EITHER),
    Kind(
        "texts of numbers",
        _json({"content": [{"type": "text", "text": 7}], "choices": [{"message": {"content": 7}}]}),
        End.EITHER,
    ),
    Kind("deeply nested JSON", plays.sends(plays.nested(100_000))),
    streamed(
        "deeply nested event",
        plays.sends(b"event: message_start\ndata: " + plays.nested(100_000) + b"\n\n", kind=EVENTS),
    ),
    Kind("a number of 5,000 digits", plays.sends(b'{"content": [], "usage": {"input_tokens": ' + b"9" * 5_000 + b"}}")),
    Kind("invalid UTF-8", plays.with_words(b"\xff\xfe\xed\xa0\x80")),
    Kind("full of NULs", plays.sends(b"\x00" * 5_000)),
    Kind("NULs in the texts", plays.with_words(b"\\u0000\\ud800"), End.EITHER),
    unsure("an enormous header", plays.sends(b"{}", x_filler="x" * 200_000)),
    unsure("thousands of headers", plays.raw(b"HTTP/1.1 200 OK\r\n", *[b"x-%d: y\r\n" % n for n in range(30_000)])),
    unsure("two lengths", plays.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 9\r\n\r\n{}")),
    unsure("a length below zero", plays.raw(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n{}")),
    unsure(
        "a chunk of no size",
        plays.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n"
        ),
    ),
    # Oversized replies.
    Kind("endless JSON", plays.stream_of(b" " * 64, b'{"content": [', JSON)),
    streamed("endless stream", plays.stream_of(ENDLESS_EVENT, BEGUN)),
    streamed("endless event", plays.stream_of(b"x" * 64, b"data: ")),
    streamed("flood of pings", plays.stream_of(plays.PING)),
    Kind("100 MB", plays.large(100 * MIB)),
    Kind("gzip bomb", plays.bomb(100 * MIB)),
    retried("broken gzip", plays.with_body(plays.wrongly_packed, content_encoding="gzip")),
    retried("gzip that is none", plays.with_body(bytes, content_encoding="gzip")),
    # Error replies.
    retried("429, at once", plays.fails(429, retry_after="0")),
    retried("429, in a little", plays.fails(429, retry_after="0.5")),
    Kind("429, in a year", plays.fails(429, retry_after="31536000")),
    retried("429, whenever", plays.fails(429, retry_after="when it suits")),
    retried("429, before now", plays.fails(429, retry_after="-5")),
    Kind("429, never", plays.fails(429, retry_after="inf")),
    retried("429, no number", plays.fails(429, retry_after="nan")),
    retried("429, at a date that is past", plays.fails(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")),
    Kind("429, at a late date", plays.fails(429, retry_after=_late_date(100_000))),
    retried("408", plays.fails(408)),
    retried("409", plays.fails(409)),
    Kind("413", plays.fails(413)),
    Kind("418 with no words", plays.sends(b"", 418)),
    retried("500", plays.fails(500)),
    retried("502 with HTML", plays.sends(HTML, 502, kind="text/html")),
    retried("529", plays.fails(529)),
    Kind("529, not to be tried again", plays.fails(529, x_should_retry="false")),
    Kind("401, to be tried again", plays.fails(401, x_should_retry="true"), tries=(TRIES, TRIES)),
    # A whole later request is sent once more, by the SDK.
    unsure("redirected in a circle", plays.redirects_to_itself, tries=(TRIES * REDIRECTS + 1, TRIES * REDIRECTS)),
    unsure("redirected to another port", plays.redirects_to_another_port, tries=(2, 1)),
    # Irregular streams.
    streamed("every event twice", plays.with_events(_twice), end=End.EITHER),
    streamed("events out of order", plays.with_events(_swapped), end=End.EITHER),
    retried("an error in mid-stream", plays.with_events(plays.halfway(ERROR)), whole=False),
    streamed("an error after the end", plays.with_events(lambda events: [*events, ERROR]), end=End.EITHER),
    streamed("a thousand pings", plays.with_events(plays.halfway(plays.PING * 1_000)), end=End.PASSES),
    streamed(
        "events that nobody knows",
        plays.with_events(plays.halfway(b'event: new\ndata: {"type": "new"}\n\n')),
        end=End.PASSES,
    ),
    retried("no end of the stream", plays.with_events(lambda events: events[: len(events) // 2]), whole=False),
)
