"""The simulator's prompt cache bills as the API documents it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.wire.simulator import MessagesSimulator, billed, replies
from tests.wire.simulator.client import post
from tests.wire.simulator.examples.base import (
    HAIKU,
    MARK,
    OPUS,
    RESPOND,
    TOOLS,
    Body,
    assistant,
    call,
    request,
    result,
    user,
    words,
)
from tests.wire.simulator.prompt import Block, canonical

HOUR = {"type": "ephemeral", "ttl": "1h"}
FORCED = {"type": "tool", "name": "respond"}
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
Usage = dict[str, Any]
Ask = Callable[..., Usage]


@pytest.fixture
def ask(messages_api: Callable[..., MessagesSimulator]) -> Ask:
    """Return a function that sends a request and returns the usage of its reply."""
    api = messages_api(lambda _: replies.says("Mice."))

    def send(body: Body, *, minutes_later: float = 0) -> Usage:
        api.cache.pass_time(60 * minutes_later)
        response = post(api.base_url, body)
        assert response.status == 200, response.raw
        usage = response.json["usage"]
        assert isinstance(usage, dict)
        return usage

    return send


def parts(usage: Usage) -> tuple[int, int, int]:
    """Return the tokens read from the cache, written to it, and uncached."""
    return (
        usage["cache_read_input_tokens"],
        usage["cache_creation_input_tokens"],
        usage["input_tokens"],
    )


def sized(block: Block, tokens: int, *, key: str = "text") -> Block:
    """Return a block padded to a number of tokens."""
    room = 4 * tokens - len(canonical({**block, key: ""}))
    return {**block, key: "a" * room}


def paragraphs(count: int, *, marks: tuple[int, ...] = (), tokens: int = 200, **fields: Any) -> Body:
    """Return a request with one message of `count` blocks, some of them with a cache marker."""
    blocks = [sized(words(""), tokens) for _ in range(count)]
    for index in marks:
        blocks[index] = {**blocks[index], "cache_control": MARK}
    return request(messages=[user(*blocks)], **fields)


def conversation(turns: int, *, system_mark: bool = True, **fields: Any) -> Body:
    """Return a request after some turns: 1,100 tokens of system prompt, and about 100 per turn."""
    system = sized(words("", **({"cache_control": MARK} if system_mark else {})), 1100)
    messages = [user("What do owls eat?")]
    for turn in range(turns):
        messages += [assistant(call(f"toolu_{turn}")), user(sized(result(f"toolu_{turn}"), 80, key="content"))]
    return request(**{"tools": TOOLS, "system": [system], "messages": messages, "cache_control": MARK, **fields})


def test_first_request_writes_and_the_next_one_reads(ask: Ask) -> None:
    """The first request writes everything up to the marker, and the next one reads it; only the rest is uncached."""
    assert parts(ask(paragraphs(10, marks=(9,)))) == (0, 2000, 0)
    assert parts(ask(paragraphs(10, marks=(9,)))) == (2000, 0, 0)
    assert parts(ask(paragraphs(12, marks=(9,)))) == (2000, 0, 400)
    assert parts(ask(paragraphs(14, marks=(13,)))) == (2000, 800, 0)


def test_nothing_is_cached_without_a_marker(ask: Ask) -> None:
    """A request without markers neither writes nor reads."""
    ask(paragraphs(10, marks=(9,)))
    assert parts(ask(paragraphs(10))) == (0, 0, 2000)


def test_entries_exist_only_where_a_marker_was(ask: Ask) -> None:
    """A shorter prefix of a written entry has no entry of its own."""
    ask(paragraphs(10, marks=(9,)))
    assert parts(ask(paragraphs(8, marks=(7,)))) == (0, 1600, 0)


def test_automatic_marker_follows_the_tail(ask: Ask) -> None:
    """A marker at the top of the body acts as a marker on the last block."""
    assert parts(ask(paragraphs(10, cache_control=MARK))) == (0, 2000, 0)
    assert parts(ask(paragraphs(11, cache_control=MARK))) == (2000, 200, 0)


def test_markers_are_not_part_of_the_cached_prompt(ask: Ask) -> None:
    """Moving a marker, or writing a block as a string, does not change the cached prompt."""
    ask(request(messages=[user("a" * 8000)], cache_control=MARK))
    short = {"role": "user", "content": "a" * 8000}
    read, written, new = parts(ask(request(messages=[short], cache_control=MARK)))
    assert (read > 0, written, new) == (True, 0, 0)


@pytest.mark.parametrize(("added", "found"), [(19, True), (20, False)])
def test_lookback_ends_after_twenty_blocks(ask: Ask, added: int, *, found: bool) -> None:
    """A marker looks back over itself and the 19 blocks before it, and finds no earlier write."""
    ask(paragraphs(10, marks=(9,)))
    read, written, new = parts(ask(paragraphs(10 + added, marks=(9 + added,))))
    assert (read, written, new) == ((2000, 200 * added, 0) if found else (0, 2000 + 200 * added, 0))


def test_a_second_marker_finds_the_previous_tail(ask: Ask) -> None:
    """A second marker on the previous tail finds its entry, even if the new tail is 30 blocks away."""
    ask(paragraphs(10, marks=(9,)))
    assert parts(ask(paragraphs(40, marks=(9, 39)))) == (2000, 6000, 0)


def test_ten_parallel_calls_miss_the_last_write(ask: Ask) -> None:
    """A turn of 10 calls and 10 results adds 20 blocks and misses the cached messages; one of 9 does not."""
    for count, found in ((9, True), (10, False)):
        ask(conversation(5))
        ids = [f"extra_{number}" for number in range(count)]
        longer = conversation(5)
        longer["messages"] += [assistant(*map(call, ids)), user(*map(result, ids))]
        tools_and_system = parts(ask(conversation(5, tool_choice=FORCED)))[0]
        assert (parts(ask(longer))[0] > tools_and_system) is found


def test_prefix_under_the_minimum_is_not_cached(ask: Ask) -> None:
    """A prefix of 1,023 tokens is silently not cached, one of 1,024 is."""
    short = request(messages=[user(sized(words(""), 1023))], cache_control=MARK)
    enough = request(messages=[user(sized(words(""), 1024))], cache_control=MARK)
    assert [parts(ask(body)) for body in (short, short)] == [(0, 0, 1023)] * 2
    assert [parts(ask(body)) for body in (enough, enough)] == [(0, 1024, 0), (1024, 0, 0)]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    "change",
    [
        {"tool_choice": FORCED},
        {"tool_choice": {"type": "none"}},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"thinking": {"type": "adaptive"}},
        {"output_config": {"effort": "low"}},
        {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
    ],
    ids=str,
)
def test_changed_options_invalidate_only_the_messages(ask: Ask, change: Body) -> None:
    """A changed `tool_choice`, thinking, effort or format invalidates only the messages, if the system has a marker."""
    ask(conversation(5))
    whole = sum(parts(ask(conversation(5))))
    read, written, new = parts(ask(conversation(5, **change)))
    tools = sum(len(canonical(tool)) for tool in TOOLS) // 4
    assert read == tools + 1100
    assert (read + written, new) == (whole, 0)


def test_without_a_system_marker_a_changed_option_invalidates_everything(ask: Ask) -> None:
    """With only the automatic marker, a changed option loses the entire cache.

    No entry ends at the system prompt.
    """
    ask(conversation(5, system_mark=False))
    assert parts(ask(conversation(5, system_mark=False)))[0] > 0
    assert parts(ask(conversation(5, system_mark=False, tool_choice=FORCED)))[0] == 0


def test_tool_choice_auto_is_the_default(ask: Ask) -> None:
    """An explicit `tool_choice` of `auto` does not change the cached prompt, as it is the default."""
    ask(conversation(5))
    assert parts(ask(conversation(5, tool_choice={"type": "auto"})))[1:] == (0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"tools": TOOLS[::-1]},
        {"tools": TOOLS[:1]},
        {"tools": None},
        {"tools": [*TOOLS[:1], {**RESPOND, "description": "End."}]},
        {"model": OPUS},
    ],
    ids=["order", "removal", "dropped", "edit", "model"],
)
def test_tools_and_model_lose_everything(ask: Ask, change: Body) -> None:
    """A change of tools or model, which begin the prefix, invalidates the entire cache."""
    ask(conversation(5))
    assert parts(ask(conversation(5, **change)))[0] == 0


def test_system_edit_keeps_the_tools(ask: Ask) -> None:
    """An edited system prompt invalidates itself and the messages; marked tools are still read from the cache."""
    tool = sized({**RESPOND, "cache_control": MARK}, 1100, key="description")
    ask(conversation(5, tools=[tool]))
    changed = conversation(5, tools=[tool], system=[words("Another.", cache_control=MARK)])
    assert parts(ask(changed))[0] == 1100


def test_an_edited_message_invalidates_everything_after_it(ask: Ask) -> None:
    """An edited message invalidates everything after it; tools and system prompt are still read."""
    ask(conversation(5))
    edited = conversation(5)
    edited["messages"][0] = user("What do foxes eat?")
    assert parts(ask(edited))[0] == parts(ask(conversation(5, tool_choice=FORCED)))[0]


def test_entries_age_and_reading_refreshes_them(ask: Ask) -> None:
    """An entry expires after five minutes without use, an entry with the hour's lifetime after an hour."""
    five, hour = paragraphs(10, cache_control=MARK), paragraphs(10, cache_control=HOUR, tokens=300)
    for body, wait in ((five, 4), (hour, 50)):
        assert ask(body)["cache_read_input_tokens"] == 0
        assert ask(body, minutes_later=wait)["cache_read_input_tokens"] > 0
        assert ask(body, minutes_later=wait)["cache_read_input_tokens"] > 0
        assert ask(body, minutes_later=wait + 15)["cache_read_input_tokens"] == 0


def test_an_hour_of_lifetime_is_billed_separately(ask: Ask) -> None:
    """A write for an hour costs twice the input price, a write for five minutes after it 1.25 times."""
    body = paragraphs(10, cache_control=MARK)
    body["messages"][0]["content"][7]["cache_control"] = HOUR
    usage = ask(body)
    assert usage["cache_creation"] == {"ephemeral_1h_input_tokens": 1600, "ephemeral_5m_input_tokens": 400}
    assert billed(usage) == 2 * 1600 + 1.25 * 400
    body["messages"][0]["content"] += paragraphs(2)["messages"][0]["content"]
    usage = ask(body)
    assert usage["cache_creation"] == {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 400}
    assert billed(usage) == 1.25 * 400 + 0.1 * 2000
    assert billed(usage, read_price=0.05) == 1.25 * 400 + 0.05 * 2000


def test_refused_and_failed_requests_write_nothing(messages_api: Callable[..., MessagesSimulator]) -> None:
    """Only an answered request writes to the cache."""
    api = messages_api([replies.says("Mice.")], may_refuse=("max_tokens.positive",))
    assert post(api.base_url, paragraphs(10, marks=(9,), max_tokens=0)).status == 400
    assert parts(post(api.base_url, paragraphs(10, marks=(9,))).json["usage"]) == (0, 2000, 0)


def landing(turns: int, **fields: Any) -> Body:
    """Return a request of 74,000 tokens at 29 turns: 600 in tools, 2,400 in system, 2,437 in the last turn."""
    tools = [sized(RESPOND, 600, key="description")]
    system = [sized(words("", cache_control=MARK), 2400)]
    messages = [user(sized(words(""), 71_000 - 28 * 2446 - 2437))]
    for turn in range(turns):
        asked = call(f"toolu_{turn}")
        rest = (2437 if turn == 28 else 2446) - len(canonical(asked)) / 4
        room = int(4 * rest) - len(canonical(result(f"toolu_{turn}", "")))
        messages += [assistant(asked), user(result(f"toolu_{turn}", "a" * room))]
    body = {"tools": tools, "system": system, "messages": messages, "cache_control": MARK, **fields}
    return request(model=HAIKU, **body)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("change", "cost"),
    [
        ({"tools": None}, 91_750),
        ({"tool_choice": FORCED}, 89_050),
        ({"tool_choice": FORCED, "cache_control": None}, 71_300),
        ({}, 10_202),
    ],
    ids=["tools dropped", "forced", "forced, no tail marker", "order in the tail"],
)
def test_landing_request_of_74000_tokens(ask: Ask, change: Body, cost: int) -> None:
    """Each of the four ways to land costs as many plain input tokens as documented."""
    ask(landing(28))
    usage = ask(landing(29, **change))
    assert sum(parts(usage)) == 74_000 - (600 if "tools" in change else 0)
    assert billed(usage) == pytest.approx(cost, abs=2)
