"""The simulator's script: the next reply, the record of requests, and the errors that fail a test."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.wire.simulator import MessagesSimulator, ScriptError, replies
from tests.wire.simulator.client import Response, post
from tests.wire.simulator.examples.base import (
    OPUS,
    chat,
    request,
)
from tests.wire.simulator.sse import encode, events

Start = Callable[..., MessagesSimulator]


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
