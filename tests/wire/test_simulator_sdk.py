"""The real SDK understands the simulator, with JSON replies and streams."""

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import pytest

from tests.wire.simulator import MessagesSimulator, faults, replies
from tests.wire.simulator.examples.base import MARK, OPUS, Body, chat, request, result, user

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
