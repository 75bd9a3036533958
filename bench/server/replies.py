"""A reply as one JSON object, or as the events of a stream."""

from collections.abc import Iterator, Mapping
from typing import Any

from bench.server.cache import BYTES_A_TOKEN, Input
from bench.server.codec import encode

Json = dict[str, Any]


def reply(number: int, model: str, turn: list[Json] | str, paid: Input) -> Json:
    """Return the reply of a model.

    number: makes all ids its own.
    turn: calls, each with name and input, or the answer.
    """
    content: list[Json]
    if isinstance(turn, str):
        content = [{"type": "text", "text": turn}]
    else:
        content = [{"type": "tool_use", "id": f"toolu_{number:08}_{at:02}", **call} for at, call in enumerate(turn)]
    return {
        "id": f"msg_{number:08}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "end_turn" if isinstance(turn, str) else "tool_use",
        "stop_sequence": None,
        "usage": {**paid.usage(), "output_tokens": len(encode(content)) // BYTES_A_TOKEN},
    }


def streamed(whole: Json) -> bytes:
    """Return a reply as server-sent events."""
    return b"".join(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode(event)) for event in _events(whole))


def _events(whole: Json) -> Iterator[Json]:
    usage = {**whole["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": usage}}
    for at, block in enumerate(whole["content"]):
        begun, delta = _begun(block)
        yield {"type": "content_block_start", "index": at, "content_block": begun}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def _begun(block: Mapping[str, Any]) -> tuple[Json, Json]:
    """Return the empty block that a stream begins with, and the one piece that fills it."""
    if block["type"] == "text":
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    piece = {"type": "input_json_delta", "partial_json": encode(block["input"]).decode()}
    return {**block, "input": {}}, piece
