"""The prompt cache: the tokens that a request reads and writes, and their cost.

The prefix is chained over tools, system and messages, so a change invalidates everything after it. `tool_choice`,
thinking, effort and the format of the reply enter the chain where the messages begin. Entries exist only where a
request had a marker.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .prompt import Segment, digest, serialise, tokens

LOOKBACK = 20
"""Positions that are looked at from a marker, its own included."""
MARKERS = 4
"""Markers that a request may carry, the automatic one included."""
LIFETIMES = {"5m": 300.0, "1h": 3600.0}
"""Seconds that an entry lives after it was last used."""

Usage = dict[str, Any]


class PromptCache:
    """Remember the prefixes that requests have written."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._skipped = 0.0
        self._entries: dict[bytes, float] = {}

    def pass_time(self, seconds: float) -> None:
        """Let the entries grow older by so many seconds."""
        self._skipped += seconds

    def account(self, body: Mapping[str, Any], blocks: Sequence[Segment], minimum: int) -> Usage:
        """Return the input usage of a request and keep what it writes; no prefix below `minimum` [tokens] is cached."""
        now = self._clock() + self._skipped
        chain, sizes = _chain(body, blocks)
        marks = [(at, ttl) for at, ttl in markers(body, blocks) if tokens(sizes[at]) >= minimum]
        hit = max((self._last_entry(chain, at, now) for at, _ in marks), default=-1)
        read = written_to = tokens(sizes[hit]) if hit >= 0 else 0
        written = dict.fromkeys(LIFETIMES, 0)
        for at, ttl in marks:
            self._entries[chain[at]] = now + LIFETIMES[ttl]
            if at > hit:
                written[ttl] += tokens(sizes[at]) - written_to
                written_to = tokens(sizes[at])
        if hit >= 0:
            self._entries[chain[hit]] = max(self._entries[chain[hit]], now + LIFETIMES["5m"])
        return {
            "input_tokens": tokens(sizes[-1]) - written_to,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_creation": {f"ephemeral_{ttl}_input_tokens": count for ttl, count in written.items()},
        }

    def _last_entry(self, chain: Sequence[bytes], marker: int, now: float) -> int:
        for at in range(marker, max(-1, marker - LOOKBACK), -1):
            if self._entries.get(chain[at], 0.0) > now:
                return at
        return -1


def markers(body: Mapping[str, Any], blocks: Sequence[Segment]) -> list[tuple[int, str]]:
    """Return (block, lifetime) of each marker in order; the automatic one sits on the last block it can."""
    found = {at: segment.ttl for at, segment in enumerate(blocks) if segment.ttl is not None}
    automatic = body.get("cache_control")
    if automatic is not None:
        last = next((at for at in reversed(range(len(blocks))) if blocks[at].can_be_cached), None)
        if last is not None:
            found.setdefault(last, automatic.get("ttl", "5m"))
    return sorted(found.items())


def count_tokens(blocks: Sequence[Segment]) -> int:
    """Return the input tokens of a whole prompt."""
    return tokens(sum(len(segment.data) for segment in blocks))


def billed(usage: Mapping[str, Any], read_price: float = 0.1) -> float:
    """Return what the input of a usage costs, in plain input tokens (1.25 a write, 2 for an hour)."""
    hour = (usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens", 0)
    short = usage["cache_creation_input_tokens"] - hour
    return float(usage["input_tokens"] + 1.25 * short + 2 * hour + read_price * usage["cache_read_input_tokens"])


def _chain(body: Mapping[str, Any], blocks: Sequence[Segment]) -> tuple[list[bytes], list[int]]:
    """Return the digest and the size in bytes of the prefix that ends with each block."""
    output = body.get("output_config") or {}
    state = digest(b"", serialise([body["model"], body.get("speed")]))
    choice, form = body.get("tool_choice") or {"type": "auto"}, output.get("format")
    options = serialise([choice, body.get("thinking"), output.get("effort"), output.get("task_budget"), form])
    size, role, in_messages = 0, "", False
    chain: list[bytes] = []
    sizes: list[int] = []
    for segment in blocks:
        if segment.level == "messages" and not in_messages:
            state, in_messages = digest(state, options), True
        if segment.role != role:
            state, role = digest(state, segment.role.encode()), segment.role
        state = digest(state, segment.level.encode(), segment.data)
        size += len(segment.data)
        chain.append(state)
        sizes.append(size)
    return chain, sizes
