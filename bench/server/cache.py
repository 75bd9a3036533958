"""Simulation of the documented prompt cache: input tokens read, written and uncached per request.

The prompt is a chain of blocks: tools, then system, then messages. Entries are written only at the markers of a request
and looked up at most 20 blocks before a marker. `tool_choice`, thinking and `output_config` enter the chain before the
messages, so changing them invalidates the cached messages only.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.server.codec import encode
from bench.server.refusal import Refused

BYTES_A_TOKEN = 4
LEAST = 1024
"""Minimum length of a cached prefix [tokens]."""
LOOKBACK = 20
"""Number of blocks looked up per marker, including the marked one."""
MARKERS = 4
"""Maximum number of markers per request, including the automatic one."""
LIFETIME = 300.0
"""Lifetime of an entry after its last use [s]."""
WRITE_PRICE, READ_PRICE = 1.25, 0.1
"""Prices of tokens written and read, relative to uncached tokens."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Input:
    """Input of one request by price [tokens]."""

    plain: int = 0
    written: int = 0
    read: int = 0

    @property
    def billed(self) -> float:
        """Price in uncached tokens."""
        return self.plain + WRITE_PRICE * self.written + READ_PRICE * self.read

    def usage(self) -> dict[str, int]:
        """Return the `usage` fields of the API."""
        return {
            "input_tokens": self.plain,
            "cache_creation_input_tokens": self.written,
            "cache_read_input_tokens": self.read,
        }


@dataclass(frozen=True, slots=True)
class _Place:
    """The end of a block in the prompt."""

    prefix: int
    """Hash of the prompt up to here, including this block."""
    tokens: int
    """Size of the prompt up to here."""
    marked: bool
    markable: bool


class Cache:
    """Cached prefixes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the clock for the lifetime of entries [s]."""
        self._clock = clock
        self._used: dict[int, float] = {}

    def account(self, request: Json) -> Input:
        """Return the input of a request by price, and cache what it writes.

        Raises Refused for too many markers.
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
        """Return the index of the last block up to a marker that has a cache entry."""
        for at in range(marker, max(-1, marker - LOOKBACK), -1):
            if now - self._used.get(places[at].prefix, -LIFETIME) < LIFETIME:
                return at
        return None


def _marks(request: Json, places: list[_Place]) -> list[int]:
    """Return the indexes of the markers; the automatic one is on the last block that may have one."""
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
    """Yield the blocks in prompt order; bytes are part of the hash chain but not blocks."""
    yield from request.get("tools") or ()
    yield from blocks(request.get("system") or [])
    choice = request.get("tool_choice") or {"type": "auto"}
    yield encode([choice, request.get("thinking"), request.get("output_config") or {}])
    for message in request["messages"]:
        yield message["role"].encode()
        yield from blocks(message["content"])


def blocks(content: Any) -> Any:  # noqa: ANN401 - a text, or a list of blocks
    """Return content as a list of blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
