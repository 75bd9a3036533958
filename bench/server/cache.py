"""The prompt cache by its documented rules: what a request reads from it, writes to it, and pays in full.

The prompt is a chain of blocks: tools, then system, then messages. Entries are made only where a request has a marker,
and looked for at most 20 blocks back from one. `tool_choice`, thinking and effort enter the chain where the messages
begin, so a change of them loses the messages and keeps the rest.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.server.codec import encode
from bench.server.refusal import Refused

BYTES_A_TOKEN = 4
LEAST = 1024
"""A shorter prefix is never kept [tokens]."""
LOOKBACK = 20
"""Blocks that are looked at from a marker, its own included."""
MARKERS = 4
"""Markers that a request may carry, the automatic one included."""
LIFETIME = 300.0
"""How long an entry is kept after it was last used [s]."""
WRITE_PRICE, READ_PRICE = 1.25, 0.1
"""Against a token that is neither written nor read."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Input:
    """What the input of one request comes to [tokens]."""

    plain: int = 0
    written: int = 0
    read: int = 0

    @property
    def billed(self) -> float:
        """What is paid for it, in tokens that are neither written nor read."""
        return self.plain + WRITE_PRICE * self.written + READ_PRICE * self.read

    def usage(self) -> dict[str, int]:
        """Return it as the API words it."""
        return {
            "input_tokens": self.plain,
            "cache_creation_input_tokens": self.written,
            "cache_read_input_tokens": self.read,
        }


@dataclass(frozen=True, slots=True)
class _Place:
    """The end of a block in the prompt."""

    prefix: int
    """Stands for all that comes before it, itself included."""
    tokens: int
    """Size of the prompt up to here."""
    marked: bool
    markable: bool


class Cache:
    """Keeps the prefixes that requests have written."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the clock by which entries grow old [s]."""
        self._clock = clock
        self._used: dict[int, float] = {}

    def account(self, request: Json) -> Input:
        """Return what a request comes to, and keep what it writes.

        Raises Refused for more markers than a request may have.
        """
        places = list(_places(request))
        now = self._clock()
        kept = [at for at in _marks(request, places) if places[at].tokens >= LEAST]
        hit = next((found for at in reversed(kept) if (found := self._behind(places, at, now)) is not None), None)
        read = 0 if hit is None else places[hit].tokens
        for at in [*kept, *([] if hit is None else [hit])]:
            self._used[places[at].prefix] = now
        reaches = max(read, places[kept[-1]].tokens) if kept else read
        return Input(places[-1].tokens - reaches, reaches - read, read)

    def _behind(self, places: list[_Place], marker: int, now: float) -> int | None:
        """Return the last block up to a marker where an entry ends."""
        for at in range(marker, max(-1, marker - LOOKBACK), -1):
            if now - self._used.get(places[at].prefix, -LIFETIME) < LIFETIME:
                return at
        return None


def _marks(request: Json, places: list[_Place]) -> list[int]:
    """Return where the markers are, in order; the automatic one sits on the last block that can have one."""
    marks = [at for at, place in enumerate(places) if place.marked]
    if request.get("cache_control"):
        last = next((at for at in reversed(range(len(places))) if places[at].markable), None)
        if last is not None and last not in marks:
            marks = sorted([*marks, last])
    if len(marks) > MARKERS:
        raise Refused(f"A maximum of {MARKERS} blocks with cache_control may be provided. Found {len(marks)}.")
    return marks


def _places(request: Json) -> Iterator[_Place]:
    """Yield the end of each block of the prompt."""
    prefix, size = hash(request.get("model")), 0
    for block in _prompt(request):
        if isinstance(block, bytes):
            prefix = hash((prefix, block))
            continue
        marked = bool(block.get("cache_control"))
        raw = encode({key: value for key, value in block.items() if key != "cache_control"} if marked else block)
        prefix, size = hash((prefix, raw)), size + len(raw)
        markable = block.get("type") not in {"thinking", "redacted_thinking"} and block.get("text") != ""
        yield _Place(prefix, size // BYTES_A_TOKEN, marked, markable)


def _prompt(request: Json) -> Iterator[Json | bytes]:
    """Yield the blocks in the order of the prompt, and as bytes what counts into the chain without being a block."""
    yield from request.get("tools") or ()
    yield from blocks(request.get("system") or [])
    effort = (request.get("output_config") or {}).get("effort")
    yield encode([request.get("tool_choice") or {"type": "auto"}, request.get("thinking"), effort])
    for message in request["messages"]:
        yield message["role"].encode()
        yield from blocks(message["content"])


def blocks(content: Any) -> Any:  # noqa: ANN401 - a text, or a list of blocks
    """Return content as blocks; a plain text is one of them."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
