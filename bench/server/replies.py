"""Build replies, as one JSON object or as server-sent events."""

from collections.abc import Iterator, Mapping
from typing import Any

from bench.server.cache import BYTES_A_TOKEN, Input
from bench.server.codec import encode

Json = dict[str, Any]


def reply(number: int, model: str, turn: list[Json] | str, paid: Input) -> Json:
    """Return the reply of the model.

    number: Number that makes all ids unique.
    turn: Tool calls with name and input, or the answer.
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


def streamed(message: Json) -> bytes:
    """Return a reply as server-sent events."""
    return b"".join(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode(event)) for event in _events(message))


def _events(message: Json) -> Iterator[Json]:
    usage = {**message["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage}}
    for at, block in enumerate(message["content"]):
        begun, delta = _begun(block)
        yield {"type": "content_block_start", "index": at, "content_block": begun}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _begun(block: Mapping[str, Any]) -> tuple[Json, Json]:
    """Return the empty block that starts a stream, and the single delta that fills it."""
    if block["type"] == "text":
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    piece = {"type": "input_json_delta", "partial_json": encode(block["input"]).decode()}
    return {**block, "input": {}}, piece
