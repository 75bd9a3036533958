"""The real SDK understands the simulator, with JSON replies and streams."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import pytest

from tests.wire.simulator import Gate, MessagesSimulator, Reply, faults, replies
from tests.wire.simulator.examples.base import HAIKU, MARK, OPUS, TOOLS, Body, chat, request, result, user

Start = Callable[..., MessagesSimulator]


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


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (replies.says("Mice."), "end_turn"),
        (Reply([]), "end_turn"),
        (replies.answers("Mice."), "tool_use"),
        (replies.says("Mice and", stop_reason="max_tokens"), "max_tokens"),
        (replies.pauses("One moment.", replies.server_tool_use("web_search", {"query": "x"})), "pause_turn"),
        (replies.says("Mi", stop_reason="stop_sequence", stop_sequence="ce"), "stop_sequence"),
        (replies.says("Mice", stop_reason="model_context_window_exceeded"), "model_context_window_exceeded"),
        (replies.says("Mice", stop_reason="a_reason_of_2027"), "a_reason_of_2027"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_stop_reason_is_passed_through(
    sync: Callable[..., anthropic.Anthropic], reply: Reply, reason: str, *, stream: bool
) -> None:
    """Every stop reason is passed through, including unknown ones."""
    message = exchanged(sync([reply]), chat(), stream=stream)
    assert (message.stop_reason, message.stop_sequence) == (reason, reply.stop_sequence)
    assert [block.type for block in message.content] == [block["type"] for block in reply.content]


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_has_a_category(sync: Callable[..., anthropic.Anthropic], *, stream: bool) -> None:
    """A refusal has status 200 and a category."""
    message = exchanged(sync([replies.refuses("bio")]), request(), stream=stream)
    assert message.stop_reason == "refusal"
    assert message.stop_details is not None
    assert message.stop_details.category == "bio"


@pytest.mark.parametrize(("stream", "arguments"), [(False, {}), (True, {"answer": "Mice a"})])
def test_a_cut_call_has_partial_arguments_only_as_a_stream(
    sync: Callable[..., anthropic.Anthropic], arguments: Body, *, stream: bool
) -> None:
    """A call cut by `max_tokens` has no arguments as JSON, and half of them as a stream."""
    client = sync([replies.cut_call("respond", '{"answer": "Mice a')])
    message = exchanged(client, chat(), stream=stream)
    assert message.stop_reason == "max_tokens"
    assert message.content[-1].type == "tool_use"
    assert message.content[-1].input in ({}, arguments)


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


def test_retries_are_seen(messages_api: Start) -> None:
    """The SDK retries a 429 after the given wait, and both requests are recorded."""
    api = messages_api([faults.rate_limited(0.01), replies.says("Mice.")])
    with anthropic.Anthropic(base_url=api.base_url, api_key="test-key") as client:
        client.messages.create(**request())
    assert [seen.status for seen in api.requests] == [429, 200]
    assert len(api.accepted) == 1


@pytest.mark.anyio
async def test_asynchronous_client(messages_api: Start) -> None:
    """The asynchronous client works with JSON and streams, and sees half a stream before the rest is sent."""
    gate = Gate()
    api = messages_api([THOUGHTFUL, replies.says("Mice and voles.", midway=gate)])
    async with anthropic.AsyncAnthropic(base_url=api.base_url, api_key="test-key") as client:
        message = await client.messages.create(**chat())
        assert message.stop_reason == "tool_use"
        async with client.messages.stream(**chat()) as stream:
            words = aiter_text(stream.text_stream)
            assert await anext(words) == "Mice "
            assert not gate.opened.is_set()
            gate.open()
            assert [piece async for piece in words] == ["and v", "oles."]
    assert [seen.stream for seen in api.requests] == [False, True]
    assert api.requests[0].tool_names == [tool["name"] for tool in TOOLS]
    assert api.requests[0].body["model"] == HAIKU


async def aiter_text(stream: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the pieces of a stream, so that several loops can continue one iterator."""
    async for piece in stream:
        yield piece
