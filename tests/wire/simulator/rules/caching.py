"""Rules on cache markers and on the size of the prompt."""

from collections.abc import Iterator
from typing import Any

from tests.wire.simulator.cache import LIFETIMES, MARKERS, count_tokens, markers
from tests.wire.simulator.prompt import THINKING, as_blocks

from .base import Call, Table

RULES_ON_MARKERS = Table()


@RULES_ON_MARKERS.rule("cache_control.shape")
def shape(call: Call) -> Iterator[str]:
    """Require markers that are `ephemeral`, for five minutes or an hour."""
    for where, _, marker in _markers(call):
        good = isinstance(marker, dict) and marker.get("type") == "ephemeral" and set(marker) <= {"type", "ttl"}
        if not good or marker.get("ttl", "5m") not in LIFETIMES:
            yield f"{where}cache_control: Input should be of type 'ephemeral' with a ttl of '5m' or '1h'"


@RULES_ON_MARKERS.rule("cache_control.thinking")
def on_thinking(call: Call) -> Iterator[str]:
    """Refuse a marker on a thought."""
    for where, block, _ in _markers(call):
        if block.get("type") in THINKING:
            yield f"{where}{block['type']}.cache_control: Extra inputs are not permitted"


@RULES_ON_MARKERS.rule("cache_control.empty_text")
def on_empty_text(call: Call) -> Iterator[str]:
    """Refuse a marker on a text block without text."""
    for where, block, _ in _markers(call):
        if block.get("type") == "text" and not block.get("text"):
            yield f"{where}cache_control cannot be set for empty text blocks"


@RULES_ON_MARKERS.rule("cache_control.count")
def count(call: Call) -> Iterator[str]:
    """Take at most four markers, the automatic one included."""
    found = sum(1 for _ in _markers(call))
    if found > MARKERS:
        yield f"A maximum of {MARKERS} blocks with cache_control may be provided. Found {found}."


RULES_ON_PROMPT = Table()


@RULES_ON_PROMPT.rule("cache_control.ttl_order")
def ttl_order(call: Call) -> Iterator[str]:
    """Require what lives longer to stand further in front."""
    lifetimes = [LIFETIMES[ttl] for _, ttl in markers(call.body, call.segments)]
    if lifetimes != sorted(lifetimes, reverse=True):
        yield "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."


@RULES_ON_PROMPT.rule("prompt.too_long")
def too_long(call: Call) -> Iterator[str]:
    """Refuse a prompt that does not fit into the model's window."""
    found, most = count_tokens(call.segments), call.model.context_window
    if found > most:
        yield f"prompt is too long: {found} tokens > {most} maximum"


def _markers(call: Call) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield (where, block, marker) in the order of the prompt, the automatic marker last."""
    for where, block in _places(call):
        if block.get("cache_control") is not None:
            yield f"{where}.", block, block["cache_control"]
    if call.body.get("cache_control") is not None:
        yield "", {}, call.body["cache_control"]


def _places(call: Call) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, tool in enumerate(call.body.get("tools", ())):
        yield f"tools.{index}", tool
    for index, block in enumerate(as_blocks(call.body.get("system"))):
        yield f"system.{index}", block
    for where, _, block in call.blocks():
        yield where, block
        if block["type"] == "tool_result":
            for at, part in enumerate(as_blocks(block.get("content"))):
                yield f"{where}.tool_result.content.{at}", part
