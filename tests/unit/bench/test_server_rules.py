"""The benchmark's server is as strict as the API, and computes cache savings by the documented rules."""

import pytest

from bench.server.cache import Cache, Input
from bench.server.refusal import Refused
from bench.server.rules import check

MARK = {"cache_control": {"type": "ephemeral"}}
TOKENS = 2000


def text(words: str = "x", tokens: int = TOKENS, **more):
    """Return a text block of a given number of tokens."""
    empty = len('{"type":"text","text":""}')
    return {"type": "text", "text": (words * 4 * tokens)[: 4 * tokens - empty], **more}


def use(call: str):
    """Return a tool call."""
    return {"type": "tool_use", "id": call, "name": "look", "input": {}}


def result(call: str):
    """Return the result of a tool call."""
    return {"type": "tool_result", "tool_use_id": call, "content": "seen"}


def user(*content):
    """Return a user message."""
    return {"role": "user", "content": list(content)}


def assistant(*content):
    """Return an assistant message."""
    return {"role": "assistant", "content": list(content)}


def request(*messages, **more):
    """Return a request with a tool."""
    tools = [{"name": "look", "input_schema": {}}]
    return {"model": "claude-sonnet-4-6", "max_tokens": 9, "tools": tools, "messages": list(messages), **more}


def bare(*messages, **more):
    """Return a request without tools, so that its size is that of its messages."""
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **more}


def test_cached_tokens_are_billed_at_a_tenth():
    """A growing conversation is billed 1.25 for new tokens and 0.1 for cached ones; without a marker the full price."""
    cache = Cache()
    assert [cache.account(bare(user(text()))) for _ in range(2)] == [Input(TOKENS)] * 2
    first = user(text("a"))
    assert cache.account(bare(first, **MARK)) == Input(0, TOKENS, 0)
    came = cache.account(bare(first, assistant(text("b")), user(text("c")), **MARK))
    assert came == Input(0, 2 * TOKENS, TOKENS)
    assert came.billed == pytest.approx(1.25 * 2 * TOKENS + 0.1 * TOKENS)
    # A marker on fewer than 1,024 tokens has no effect.
    assert [cache.account(bare(user(text(tokens=1023)), **MARK)) for _ in range(2)] == [Input(1023)] * 2


@pytest.mark.parametrize(("blocks", "read"), [(19, TOKENS), (20, 0)])
def test_a_write_is_found_twenty_blocks_back(blocks: int, read: int):
    """A cache write is found up to 20 blocks back, including the marker's own block."""
    cache = Cache()
    cache.account(bare(user(text("a")), **MARK))
    more = [{"type": "text", "text": "b" * 40}] * blocks
    assert cache.account(bare(user(text("a"), *more), **MARK)).read == read


FORCED = {"tool_choice": {"type": "tool", "name": "look"}}
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
FORMAT = {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}}


@pytest.mark.parametrize("option", [FORCED, FORMAT, {**FORMAT, "tool_choice": {"type": "none"}}])
def test_a_forced_choice_or_a_schema_loses_the_messages_and_keeps_the_system_prompt(option):
    """A changed `tool_choice` or format invalidates cached messages, but not the cached system prompt."""
    cache = Cache()
    system = [text("s", **MARK)]
    asked = [user(text("a"))]
    cache.account(request(*asked, system=system, **MARK))
    kept = cache.account(request(*asked, system=system, **option))
    tools = len('{"name":"look","input_schema":{}}') // 4
    assert kept == Input(TOKENS, 0, TOKENS + tools)
    cache.account(request(*asked, system=system, **MARK))
    assert cache.account(request(*asked, system=[text("t", **MARK)], **MARK)).read == 0


def test_a_cache_entry_expires_five_minutes_after_its_last_use():
    """A cache entry expires five minutes after its last use; each read renews it."""
    now = 0.0
    cache = Cache(lambda: now)
    asked = bare(user(text()), **MARK)
    reads = []
    for now in (0.0, 299.0, 598.0, 898.0):  # noqa: B007 - the clock reads it
        reads.append(cache.account(asked).read)  # noqa: PERF401 - one after another
    assert reads == [0, TOKENS, TOKENS, 0]


def test_at_most_four_markers():
    """At most four markers are allowed, and the automatic one counts."""
    four = [text(tokens=300 + number, **MARK) for number in range(4)]
    Cache().account(bare(user(*four)))
    Cache().account(bare(user(*four), **MARK))
    with pytest.raises(Refused, match="maximum of 4"):
        Cache().account(bare(user(*four, text()), **MARK))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (request(), "at least one message"),
        (request(user(text()), assistant(text())), "prefill"),
        (request(user(text()), assistant(use("1"), use("2")), user(result("1"))), "immediately after.*2"),
        (request(user(text()), assistant(use("1")), user(text(), result("1"))), "must come first"),
        (request(user(text()), tool_choice={"type": "any"}, thinking={"type": "enabled"}), "Thinking"),
    ],
)
def test_an_invalid_request_is_refused(wrong, why: str):
    """A request that the API refuses is refused with the reason; one that it accepts passes the check."""
    check(request(user(text()), assistant(use("1"), use("2")), user(result("2"), result("1"), text())))
    with pytest.raises(Refused, match=why):
        check(wrong)
