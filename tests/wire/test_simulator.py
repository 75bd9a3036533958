"""The simulator: each rule refuses a request, the cache bills as documented, a wrong script fails its test."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import anthropic
import httpx2
import pytest

from tests.wire.simulator import ALL_RULES, RULES, MessagesSimulator, Recorded, Reply, ScriptError, replies
from tests.wire.simulator.examples import (
    EXAMPLES,
    MARK,
    OPUS,
    RESPOND,
    TOOLS,
    Body,
    Example,
    assistant,
    call,
    request,
    result,
    user,
    words,
)
from tests.wire.simulator.prompt import Block, canonical

HEADERS = {"x-api-key": "test-key", "anthropic-version": "2026-10-21", "content-type": "application/json"}


def post(
    base_url: str,
    body: Mapping[str, Any] | bytes,
    *,
    method: str = "POST",
    path: str = "/v1/messages",
    headers: Mapping[str, str | None] | None = None,
) -> httpx2.Response:
    """Send one request; a header given as None is omitted."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {name: value for name, value in {**HEADERS, **(headers or {})}.items() if value is not None}
    return httpx2.request(method, f"{base_url}{path}", content=raw, headers=sent, timeout=30, verify=False)


BY_ID = {rule.id: rule for rule in RULES}


def one_thought(_: Recorded) -> Reply:
    """Return a reply with two thinking blocks, a text and a call."""
    return replies.says(
        replies.thinking("So."), replies.redacted_thinking(), "Let me look.", replies.tool_use("search", {"q": "ü"})
    )


def test_every_rule_has_an_example() -> None:
    """Each rule in the table has a request that breaks it, and rule ids are unique."""
    assert {example.rule for example in EXAMPLES} == ALL_RULES
    assert len(ALL_RULES) == len(RULES)


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{n}-{example.rule}" for n, example in enumerate(EXAMPLES)])
def test_an_invalid_request_is_refused_and_a_valid_one_accepted(example: Example) -> None:
    """The invalid request breaks exactly its rule and gets the API's error; the valid one gets a reply."""
    rule = BY_ID[example.rule]
    with MessagesSimulator(one_thought, may_refuse=ALL_RULES) as api:
        if example.opening is not None:
            assert post(api.base_url, example.opening).status_code == 200
        content = api.requests[0].content if example.opening is not None else []
        wrong, right = (part(content) if callable(part) else part for part in (example.wrong, example.right))
        response = post(api.base_url, wrong, method=example.method, path=example.path, headers=example.headers)
        refused = api.requests[-1]
        good = post(api.base_url, right)
        taken = api.requests[-1]
    assert (refused.rule, response.status_code) == (example.rule, rule.status), refused.error
    error = response.json()
    assert error["error"]["type"] == rule.kind
    assert example.message in error["error"]["message"]
    assert error["type"] == "error"
    assert error["request_id"] == response.headers["request-id"]
    assert (taken.rule, good.status_code) == (None, 200), taken.error


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
        assert response.status_code == 200, response.content
        usage = response.json()["usage"]
        assert isinstance(usage, dict)
        return usage

    return send


def parts(usage: Usage) -> tuple[int, int, int]:
    """Return the tokens read from the cache, written to it, and uncached."""
    return (usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"], usage["input_tokens"])


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


def test_unused_reply_fails_loudly() -> None:
    """An unused reply fails the test at the end, unless the test allows it."""
    with pytest.raises(ScriptError, match="nobody asked for: 1"), MessagesSimulator([replies.says("Mice.")]):
        pass
    with MessagesSimulator([replies.says("Mice.")], all_used=False):
        pass


def test_broken_rule_fails_loudly() -> None:
    """A refused request fails the test at the end and uses up no reply."""
    with (  # noqa: PT012 - raised at the end of the block, too
        pytest.raises(ScriptError, match=r"refused by messages\.empty: messages: at least"),
        MessagesSimulator([replies.says("Mice.")]) as api,
    ):
        assert post(api.base_url, request(messages=[])).status_code == 400
        assert post(api.base_url, request()).status_code == 200
        assert ([seen.rule for seen in api.refused], len(api.accepted)) == (["messages.empty"], 1)


def test_a_paused_turn_is_accepted_when_sent_back(messages_api: Callable[..., MessagesSimulator]) -> None:
    """A paused turn is accepted when sent back; no other conversation may end with an assistant message."""
    api = messages_api([replies.pauses("One moment."), replies.says("Mice.")], may_refuse={"messages.prefill"})
    with anthropic.Anthropic(base_url=api.base_url, api_key="test-key") as client:
        paused = client.messages.create(**request())
        history = [*request()["messages"], paused.to_param()]
        assert client.messages.create(**request(messages=history)).stop_reason == "end_turn"
        with pytest.raises(anthropic.BadRequestError, match="prefill"):
            client.messages.create(**request(messages=[*history[:1], {"role": "assistant", "content": "One"}]))
