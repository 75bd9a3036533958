"""Each rule of the simulator refuses an invalid request and accepts the valid one."""

import http.client
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import pytest

from tests.wire.simulator import ALL_RULES, RULES, MessagesSimulator, Recorded, Reply, ScriptError, faults, replies
from tests.wire.simulator.client import Response, post
from tests.wire.simulator.examples.base import (
    MARK,
    OPUS,
    RESPOND,
    TOOLS,
    Body,
    Example,
    assistant,
    call,
    chat,
    request,
    result,
    user,
    words,
)
from tests.wire.simulator.examples.table import EXAMPLES
from tests.wire.simulator.prompt import Block, canonical
from tests.wire.simulator.replies import tool_use
from tests.wire.simulator.sse import encode, events

BY_ID = {rule.id: rule for rule in RULES}


def one_thought(_: Recorded) -> Reply:
    """Return a reply with two thinking blocks, a text and a call."""
    return replies.says(
        replies.thinking("So."),
        replies.redacted_thinking(),
        "Let me look.",
        replies.tool_use("search", {"q": "ü"}),
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
            assert post(api.base_url, example.opening).status == 200
        content = api.requests[0].content if example.opening is not None else []
        wrong, right = (part(content) if callable(part) else part for part in (example.wrong, example.right))
        response = post(api.base_url, wrong, method=example.method, path=example.path, headers=example.headers)
        refused = api.requests[-1]
        good = post(api.base_url, right)
        taken = api.requests[-1]
    assert (refused.rule, response.status) == (example.rule, rule.status), refused.error
    error = response.json
    assert error["error"]["type"] == rule.kind
    assert example.message in error["error"]["message"]
    assert error["type"] == "error"
    assert error["request_id"] == response.headers["request-id"]
    assert (taken.rule, good.status) == (None, 200), taken.error


# The simulator's prompt cache bills as the API documents it.


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


# Each fault of the simulator breaks a reply at the documented place.


Start = Callable[..., MessagesSimulator]
REPLY = replies.says("Let me look.", tool_use("search", {"query": "owls"}))
BROKEN = (ConnectionError, http.client.HTTPException)


def streamed(**fields: object) -> Body:
    """Return a valid request with streaming."""
    return chat(stream=True, **fields)


def test_a_broken_stream_sends_its_first_events(messages_api: Start) -> None:
    """A broken stream sends its first events, then closes the connection without the end of the body."""
    api = messages_api([faults.BrokenOff(REPLY, after_events=2)])
    with pytest.raises(http.client.IncompleteRead) as caught:
        post(api.base_url, streamed())
    assert caught.value.partial.count(b"event: ") == 2
    assert api.requests[0].status == 200


def test_a_request_hangs_until_its_gate_opens(messages_api: Start) -> None:
    """A request hangs until its gate opens, and other requests are served meanwhile."""
    hang = faults.Hang()
    api = messages_api([hang, replies.says("Mice.")])
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(post, api.base_url, request())
        hang.gate.wait_for_request()
        assert post(api.base_url, request()).status == 200
        assert not hanging.done()
        hang.gate.open()
        with pytest.raises(BROKEN):
            hanging.result()


# The simulator's script: the next reply, the record of requests, and the errors that fail a test.


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
        assert post(api.base_url, request(messages=[])).status == 400
        assert post(api.base_url, request()).status == 200
        assert ([seen.rule for seen in api.refused], len(api.accepted)) == (["messages.empty"], 1)


def test_streamed_reply_has_the_events_of_the_api(messages_api: Start) -> None:
    """Streamed events come in the API's order and add up to the JSON reply."""
    reply = replies.says(replies.thinking("Owls, so …"), "Let me look.", replies.tool_use("search", {"q": "ö"}))
    api = messages_api([reply, reply])
    response: Response = post(api.base_url, chat(model=OPUS, stream=True))
    seen: list[dict[str, Any]] = response.events
    kinds = [event["type"] for event in seen]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert "ping" in kinds
    assert seen[0]["message"]["content"] == []
    assert seen[0]["message"]["usage"]["output_tokens"] == 1
    assert seen[-2]["delta"]["stop_reason"] == "tool_use"
    assert seen[-2]["usage"] == api.requests[0].usage
    deltas = [event["delta"] for event in seen if event["type"] == "content_block_delta"]
    assert "".join(delta.get("partial_json", "") for delta in deltas) == '{"q": "ö"}'
    assert "".join(delta.get("text", "") for delta in deltas) == "Let me look."
    assert [delta["type"] for delta in deltas].count("input_json_delta") > 2
    assert [delta["type"] for delta in deltas if "thinking" in delta or "signature" in delta] == [
        *["thinking_delta"] * 3,
        "signature_delta",
    ]
    whole = post(api.base_url, chat(model=OPUS)).json
    same = {"id": seen[0]["message"]["id"], "content": api.requests[0].content}  # id and content differ by request
    assert response.raw == b"".join(encode(event) for event in events({**whole, **same}))


# The real SDK understands the simulator, with JSON replies and streams.


@pytest.fixture
def sync(messages_api: Start) -> Iterator[Callable[..., anthropic.Anthropic]]:
    """Return a function that makes a simulator with these replies and a client that does not retry by default."""
    clients: list[anthropic.Anthropic] = []

    def make(*arguments: Any, max_retries: int = 0, **options: Any) -> anthropic.Anthropic:
        api = messages_api(*arguments, **options)
        client = anthropic.Anthropic(base_url=api.base_url, api_key="test-key", max_retries=max_retries)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


def exchanged(client: anthropic.Anthropic, body: Body, *, stream: bool) -> anthropic.types.Message:
    """Return the SDK's message for a request, from a whole or a streamed reply."""
    if not stream:
        message = client.messages.create(**body)
        assert isinstance(message, anthropic.types.Message)
        return message
    with client.messages.stream(**body) as events:
        return events.get_final_message()


THOUGHTFUL = replies.says(
    replies.thinking("Owls are birds of prey, so …"),
    replies.redacted_thinking(),
    "Let me look, naïvely: 🦉",
    replies.tool_use("search", {"query": "öwls", "limit": 3, "deep": {"list": [1, None, True]}}),
    replies.tool_use("search"),
)


@pytest.mark.parametrize("stream", [False, True])
def test_content_arrives_completely(sync: Callable[..., anthropic.Anthropic], *, stream: bool) -> None:
    """Thinking, text and calls arrive as JSON and as a stream, with ids, signatures and usage."""
    message = exchanged(sync([THOUGHTFUL]), chat(model=OPUS, cache_control=MARK), stream=stream)
    thought, hidden, words, first, second = message.content
    assert thought.type == "thinking"
    assert thought.thinking == "Owls are birds of prey, so …"
    assert thought.signature
    assert hidden.type == "redacted_thinking"
    assert words.type == "text"
    assert words.text == "Let me look, naïvely: 🦉"
    assert first.type == second.type == "tool_use"
    assert first.input == {"query": "öwls", "limit": 3, "deep": {"list": [1, None, True]}}
    assert second.input == {}
    assert first.id != second.id
    assert message.stop_reason == "tool_use"
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 1


@pytest.mark.parametrize("stream", [False, True])
def test_replayed_reply_is_taken_and_cached(messages_api: Start, *, stream: bool) -> None:
    """A reply replayed through `to_param` is accepted with its thinking unchanged, and is read from the cache."""
    api = messages_api([THOUGHTFUL, replies.says("Mice.")])
    long = "You know owls. " * 400
    with anthropic.Anthropic(base_url=api.base_url, api_key="test-key") as client:
        body = chat(model=OPUS, system=long, cache_control=MARK)
        message = exchanged(client, body, stream=stream)
        content = [block.to_dict() for block in message.content]
        for block in content:
            block.pop("parsed_output", None)  # added by the SDK when it builds a message from a stream
        turn = {"role": "assistant", "content": content}
        results = [result(block.id) for block in message.content if block.type == "tool_use"]
        again = exchanged(client, {**body, "messages": [*body["messages"], turn, user(*results)]}, stream=stream)
    assert again.stop_reason == "end_turn"
    assert (again.usage.cache_read_input_tokens or 0) > 1500
    assert api.requests[1].oddities == []
    assert api.requests[1].results == {block.id: "mice" for block in message.content if block.type == "tool_use"}


def test_a_paused_turn_is_accepted_when_sent_back(messages_api: Start) -> None:
    """A paused turn is accepted when sent back unchanged.

    No other conversation may end with an assistant message.
    """
    api = messages_api([replies.pauses("One moment."), replies.says("Mice.")], may_refuse={"messages.prefill"})
    with anthropic.Anthropic(base_url=api.base_url, api_key="test-key") as client:
        paused = client.messages.create(**request())
        history = [*request()["messages"], paused.to_param()]
        assert client.messages.create(**request(messages=history)).stop_reason == "end_turn"
        with pytest.raises(anthropic.BadRequestError, match="prefill"):
            client.messages.create(**request(messages=[*history[:1], {"role": "assistant", "content": "One"}]))


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.invalid("no such thing"), anthropic.BadRequestError),
        (faults.unauthorised(), anthropic.AuthenticationError),
        (faults.not_found(), anthropic.NotFoundError),
        (faults.rate_limited(), anthropic.RateLimitError),
        (faults.overloaded(), anthropic.InternalServerError),
        (faults.server_error(), anthropic.InternalServerError),
        (faults.no_json(400), anthropic.BadRequestError),
        (faults.html(502), anthropic.InternalServerError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_each_error_status_becomes_its_exception(
    sync: Callable[..., anthropic.Anthropic],
    fault: faults.Fault,
    error: type[anthropic.APIStatusError],
    *,
    stream: bool,
) -> None:
    """Each status becomes the SDK's exception for it, with the request id."""
    client = sync([fault])
    with pytest.raises(error) as caught:
        exchanged(client, request(), stream=stream)
    assert caught.value.status_code == fault.status
    assert caught.value.request_id == "req_000000000001"


def test_broken_rules_become_sdk_errors(sync: Callable[..., anthropic.Anthropic]) -> None:
    """The SDK parses the simulator's refusals as it parses the API's."""
    client = sync([replies.says("Mice.")], may_refuse={"tool_choice.forced", "model.known", "http.auth"})
    with pytest.raises(anthropic.BadRequestError, match='type "tool" and "any" are not supported'):
        client.messages.create(**chat(model=OPUS, tool_choice={"type": "any"}))
    with pytest.raises(anthropic.NotFoundError, match="claude-opus-9"):
        client.messages.create(**request(model="claude-opus-9"))
    with pytest.raises(anthropic.AuthenticationError):
        client.messages.create(**request(), extra_headers={"Authorization": "Basic dGVzdA=="})
    assert client.messages.create(**request()).stop_reason == "end_turn"
