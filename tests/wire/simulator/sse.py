"""A message as the server-sent events of a streamed reply."""

import json
from collections.abc import Iterator
from typing import Any

Event = tuple[str, dict[str, Any]]
PIECES = 3
"""Deltas that a text, a thought or a call's arguments are split into, where they are long enough."""


def events(message: dict[str, Any], cut_json: str | None = None) -> Iterator[Event]:
    """Yield the events of a message in order; `cut_json` replaces the arguments of the last call, if they were cut."""
    usage = message["usage"]
    begun = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield "message_start", {"message": begun}
    calls = [at for at, block in enumerate(message["content"]) if "input" in block]
    for index, block in enumerate(message["content"]):
        cut = cut_json if calls and index == calls[-1] else None
        yield from _block_events(index, block, cut)
        if index == 0:
            yield "ping", {}
    delta = {key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
    yield "message_delta", {"delta": delta, "usage": usage}
    yield "message_stop", {}


def encode(event: Event) -> bytes:
    """Return one event as it goes over the wire."""
    name, data = event
    line = json.dumps({"type": name, **data}, ensure_ascii=False)
    return f"event: {name}\ndata: {line}\n\n".encode()


def _block_events(index: int, block: dict[str, Any], cut_json: str | None) -> Iterator[Event]:
    empty, deltas = _parts(block, cut_json)
    yield "content_block_start", {"index": index, "content_block": empty}
    for delta in deltas:
        yield "content_block_delta", {"index": index, "delta": delta}
    yield "content_block_stop", {"index": index}


def _parts(block: dict[str, Any], cut_json: str | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a block as it starts and the deltas that fill it."""
    if block["type"] == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        if "citations" not in block:
            return {**block, "text": ""}, deltas
        cited = [{"type": "citations_delta", "citation": one} for one in block["citations"]]
        return {**block, "text": "", "citations": None}, [*cited, *deltas]
    if block["type"] == "thinking":
        thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*thoughts, signed]
    if "input" in block:
        whole = json.dumps(block["input"], ensure_ascii=False)
        fragments = ["", *_pieces(whole if cut_json is None else cut_json)]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in fragments]
    return block, []


def _pieces(words: str) -> list[str]:
    step = max(1, -(-len(words) // PIECES))
    return [words[at : at + step] for at in range(0, len(words), step)]
