"""The simulator's prompt cache bills as the API documents it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.wire.simulator import MessagesSimulator, replies
from tests.wire.simulator.client import post
from tests.wire.simulator.examples.base import (
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


@pytest.mark.parametrize(("added", "found"), [(19, True), (20, False)])
def test_lookback_ends_after_twenty_blocks(ask: Ask, added: int, *, found: bool) -> None:
    """A marker looks back over itself and the 19 blocks before it, and finds no earlier write."""
    ask(paragraphs(10, marks=(9,)))
    read, written, new = parts(ask(paragraphs(10 + added, marks=(9 + added,))))
    assert (read, written, new) == ((2000, 200 * added, 0) if found else (0, 2000 + 200 * added, 0))


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


def test_an_edited_message_invalidates_everything_after_it(ask: Ask) -> None:
    """An edited message invalidates everything after it; tools and system prompt are still read."""
    ask(conversation(5))
    edited = conversation(5)
    edited["messages"][0] = user("What do foxes eat?")
    assert parts(ask(edited))[0] == parts(ask(conversation(5, tool_choice=FORCED)))[0]
