"""A completion as the server-sent events of a stream."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .replies import deltas


def chunks(
    completion: Mapping[str, Any], given: Sequence[Mapping[str, Any]] | None = None, *, usage: bool
) -> Iterator[bytes]:
    """Yield a completion as the events of a stream; `given` are the deltas in place of those of its message."""
    (choice,) = completion["choices"]
    head = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def event(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        one = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return encode({**head, "choices": [one], **({"usage": None} if usage else {})})

    for delta in deltas(choice["message"]) if given is None else given:
        yield event(delta)
    yield event({}, choice["finish_reason"])
    if usage:
        yield encode({**head, "choices": [], "usage": completion["usage"]})
    yield b"data: [DONE]\n\n"


def encode(chunk: Mapping[str, Any]) -> bytes:
    """Return one chunk as it goes over the wire."""
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()
