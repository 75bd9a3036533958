"""The simulator's script: the next reply, the record of requests, and the errors that fail a test."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.wire.simulator import MessagesSimulator, ScriptError, find_model, policies, replies
from tests.wire.simulator.client import Response, post
from tests.wire.simulator.examples.base import (
    HAIKU,
    OPUS,
    TOOLS,
    Body,
    assistant,
    call,
    chat,
    request,
    result,
    user,
    words,
)
from tests.wire.simulator.sse import encode, events

Start = Callable[..., MessagesSimulator]
FORCED = {"type": "tool", "name": "respond"}
LIMIT = 12


def run(api: MessagesSimulator, *, most: int = LIMIT, last: Body | None = None, order: str = "") -> list[str]:
    """Run a client that answers every call, and return the names of the calls in order.

    last: Fields of the last of `most` requests.
    order: Line that the results before the last request end with.
    """
    body, seen = chat(), []
    for number in range(most):
        final = number == most - 1
        reply = post(api.base_url, {**body, **(last or {} if final else {})}).json
        asked = [block for block in reply["content"] if block["type"] == "tool_use"]
        seen += [block["name"] for block in asked] or ["text"]
        if not asked or asked[0]["name"] == "respond":
            break
        line = f"mice\n{order}" if order and number == most - 2 else "mice"
        turns = [assistant(*reply["content"]), user(*(result(block["id"], line) for block in asked))]
        body = {**body, "messages": [*body["messages"], *turns]}
    return seen


def test_scripted_replies_are_sent_in_order(messages_api: Start) -> None:
    """Scripted replies are sent in order, and each request is recorded unchanged."""
    api = messages_api([replies.calls("search", {"q": 1}, {"q": 2}), replies.says("Mice.")])
    first = post(api.base_url, chat()).json
    ids = [block["id"] for block in first["content"]]
    second = chat(assistant(*first["content"]), user(result(ids[0], "a\nb"), result(ids[1], [words("c")])))
    post(api.base_url, second)
    assert [seen.content[0]["type"] for seen in api.requests] == ["tool_use", "text"]
    assert [seen.body for seen in api.requests] == [chat(), second]
    assert api.requests[1].results == {ids[0]: "a\nb", ids[1]: "c"}
    assert api.requests[1].last_line == "c"
    assert api.requests[1].calls_so_far == 2
    assert api.requests[0].headers["x-api-key"] == "test-key"
    assert api.requests[0].usage["input_tokens"] > 0
    assert not api.requests[0].stream


def test_request_beyond_the_script_fails_loudly() -> None:
    """An unexpected request gets a 500 that forbids a retry, and the test fails at the end."""
    with (  # noqa: PT012 - the error is raised when the block ends
        pytest.raises(ScriptError, match="request 2 has no scripted reply"),
        MessagesSimulator([replies.says("Mice.")]) as api,
    ):
        assert post(api.base_url, request()).status == 200
        response = post(api.base_url, request())
        assert (response.status, response.headers["x-should-retry"]) == (500, "false")


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


def test_policy_that_raises_fails_loudly() -> None:
    """An exception in a policy is reported, not swallowed."""

    def policy(_: object) -> replies.Reply:
        message = "my mistake"
        raise RuntimeError(message)

    with pytest.raises(ScriptError, match="my mistake"), MessagesSimulator(policy) as api:
        assert post(api.base_url, request()).status == 500


def test_an_exception_of_the_test_is_not_hidden() -> None:
    """An exception inside the block is not hidden by the check at its end."""
    with pytest.raises(ZeroDivisionError), MessagesSimulator([replies.says("Mice.")]):
        1 / 0  # noqa: B018 - the division raises on purpose


def test_accepted_oddities_are_recorded(messages_api: Start) -> None:
    """Harmful but accepted patterns are recorded: consecutive messages of one role and text after tool results."""
    api = messages_api(lambda _: replies.says("Mice."))
    turn = assistant(call())
    odd = {
        "messages.3: consecutive user messages": chat(turn, user(result()), user("Go on.")),
        "messages.2: consecutive assistant messages": chat(assistant("Hm."), turn, user(result())),
        "messages.2: text after tool results": chat(turn, user(result(), "Go on.")),
    }
    for body in odd.values():
        post(api.base_url, body)
    post(api.base_url, chat(turn, user(result(content=[words("mice"), words("0 left")]))))
    assert [seen.oddities for seen in api.requests] == [*([oddity] for oddity in odd), []]


def test_usage_can_be_replaced(messages_api: Start) -> None:
    """Usage fields given with a reply override the counted ones."""
    api = messages_api([replies.says("Mice.", usage={"output_tokens": 77})])
    usage = post(api.base_url, request()).json["usage"]
    assert usage["output_tokens"] == 77
    assert usage["input_tokens"] > 0


def test_models_can_be_replaced(messages_api: Start) -> None:
    """A test can define its own models, such as one of a local server."""
    known = find_model(HAIKU)
    assert known is not None
    small = replace(known, id="small", context_window=5)
    api = messages_api([], models=[small], may_refuse={"prompt.too_long", "model.known"})
    assert post(api.base_url, request(model="small")).json["error"]["message"].endswith("tokens > 5 maximum")
    assert post(api.base_url, request()).status == 404


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("last", "order", "expected"),
    [
        (None, "", "search"),
        ({"tool_choice": FORCED}, "", "respond"),
        ({"tool_choice": {"type": "any"}}, "", "respond"),
        ({"tool_choice": {"type": "none"}}, "", "text"),
        ({"tool_choice": {"type": "tool", "name": "search"}}, "", "search"),
        (None, "0 tool calls remain, only `respond` will be heard.", "respond"),
    ],
    ids=["nothing", "forced", "any", "none", "other tool", "order"],
)
def test_always_tool_stops_when_ordered(messages_api: Start, last: Body | None, order: str, expected: str) -> None:
    """The `always_tool` policy calls its tool until `tool_choice` or the order to respond ends it."""
    api = messages_api(policies.always_tool("search"))
    assert run(api, last=last, order=order) == ["search"] * (LIMIT - 1) + [expected]
    assert [block["input"] for block in api.requests[2].content] == [{"query": "question 2"}]


def test_always_tool_can_ignore_orders_in_text(messages_api: Start) -> None:
    """With its own `obeys`, the `always_tool` policy ignores orders in text and obeys `tool_choice` only."""
    api = messages_api(policies.always_tool("search", obeys=lambda _: False, calls_per_turn=2))
    assert run(api, most=3, order="only `respond` will be heard") == ["search"] * 6


@pytest.mark.parametrize("last", [{"tool_choice": FORCED}, {"tool_choice": {"type": "none"}}, {"tools": TOOLS[1:]}])
def test_ignores_everything_always_calls_its_tool(messages_api: Start, last: Body) -> None:
    """The `ignores_everything` policy calls its tool whatever the request contains."""
    api = messages_api(policies.ignores_everything("search"))
    assert run(api, most=3, last=last, order="only `respond` will be heard") == ["search"] * 3


def test_works_then_answers(messages_api: Start) -> None:
    """The `works_then_answers` policy makes its calls and then calls `respond` by itself."""
    api = messages_api(policies.works_then_answers("search", calls=5, calls_per_turn=2))
    assert run(api) == ["search"] * 5 + ["respond"]
    assert [len(seen.content) for seen in api.requests] == [2, 2, 1, 1]


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


def test_cut_call_has_no_or_half_its_arguments(messages_api: Start) -> None:
    """A call cut by `max_tokens` has `{}`, part of its arguments, or incomplete streamed JSON."""
    cut = replies.cut_call("respond", '{"answer": "Mi')
    part = replies.cut_call("respond", "", {"answer": "Mi"})
    api = messages_api([cut, part, cut])
    assert post(api.base_url, chat()).json["content"][0]["input"] == {}
    assert post(api.base_url, chat()).json["content"][0]["input"] == {"answer": "Mi"}
    seen = post(api.base_url, chat(stream=True)).events
    partial = [event["delta"]["partial_json"] for event in seen if event["type"] == "content_block_delta"]
    assert "".join(partial) == '{"answer": "Mi'
    assert seen[-2]["delta"]["stop_reason"] == "max_tokens"
